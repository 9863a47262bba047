#!/bin/sh
# Spark needs a Java 17 or later, and the tests with the Java client its compiler. The Makefile sets JAVA_HOME where it finds one.
# Where none is found, it is installed on Debian as root; elsewhere this says what to do.
set -eu
[ -z "${JAVA_HOME:-}" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo 'No Java 17 or later: installing one ...' >&2
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends openjdk-21-jdk-headless >/dev/null 2>&1 ||
        apt-get install -y -qq --no-install-recommends openjdk-17-jdk-headless >/dev/null
    exit 0
fi
echo 'Spark needs Java 17 or later, and none was found. Install one (Debian: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME.' >&2
exit 1
