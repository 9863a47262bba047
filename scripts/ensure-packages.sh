#!/bin/sh
# What the demo, the tests and the benchmarks start of the system: ensure-packages.sh java chromium, or one of them.
# What is missing is installed on Debian as root; elsewhere this says what to do. The exit status is 1 when something is still missing.
set -u
export DEBIAN_FRONTEND=noninteractive
status=0

# install NAME PACKAGES...: the first of the lists of packages that this system's release has.
install() {
    name=$1
    shift
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return
    echo "No $name: installing one ..." >&2
    apt-get update -qq || return
    for packages; do
        apt-get install -s -qq $packages >/dev/null 2>&1 || continue
        apt-get install -y -qq --no-install-recommends $packages >/dev/null
        return
    done
    return 1
}

on_path() {
    for name; do command -v "$name" >/dev/null && return; done
    return 1
}

missing() {
    echo "$1" >&2
    status=1
}

for program; do
    case $program in
    java) # 17 or later for Spark, with its compiler for the tests with the Java client. The Makefile sets JAVA_HOME where it finds one.
        [ -n "${JAVA_HOME:-}" ] || install 'Java 17 or later' openjdk-21-jdk-headless openjdk-17-jdk-headless ||
            missing 'Spark needs Java 17 or later, and none was found. Install one (Debian: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME.'
        ;;
    chromium) # For the tests of the report's page; playwright, which steers it, is a Node that needs libatomic.
        on_path chromium chromium-browser chromium-headless-shell google-chrome || install Chromium 'chromium-headless-shell libatomic1' 'chromium libatomic1' ||
            missing 'The tests of the report page need Chromium, and none was found. Install one (Debian: apt-get install chromium).'
        ;;
    esac
done
exit $status
