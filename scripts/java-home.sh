#!/bin/sh
# Prints the home of a Java 17 or later: JAVA_HOME if it is one, then the java on the PATH, then what Debian installs. Nothing where there is none.
is_17() {
    [ -x "$1/bin/java" ] || return 1
    version=$("$1/bin/java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${version:-0}" -ge 17 ]
}
on_path=$(command -v java 2>/dev/null) && on_path=$(dirname "$(dirname "$(readlink -f "$on_path")")")
for home in "$JAVA_HOME" "$on_path" /usr/lib/jvm/*; do
    if [ -n "$home" ] && is_17 "$home"; then
        echo "$home"
        exit 0
    fi
done
