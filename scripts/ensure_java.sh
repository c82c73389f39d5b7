#!/bin/sh
# Make sure that Java 17 or newer is there, because Spark needs it.
# Silent when it is. Otherwise install Debian's headless JRE if we may, else say what to install.
set -eu

wanted=17

# Print the major version of the Java at $1, or 0 when it does not answer.
# The first line reads `openjdk version "17.0.15" ...`, or `"1.8.0_292"` for Java 8 and older.
java_major() {
    major=$("$1" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1) || major=
    echo "${major:-0}"
}

# The Java that Spark would start: JAVA_HOME wins over PATH.
have_java() {
    [ "$(java_major "${JAVA_HOME:+$JAVA_HOME/bin/}java")" -ge "$wanted" ]
}

# The package to install: Debian's default when it is new enough, else the oldest one that will do.
jre_package() {
    default=$(apt-cache depends default-jre-headless 2>/dev/null |
        sed -n 's/.*Depends: openjdk-\([0-9][0-9]*\)-jre-headless.*/\1/p' | head -n 1)
    if [ "${default:-0}" -ge "$wanted" ]; then
        echo default-jre-headless
    else
        echo "openjdk-$wanted-jre-headless"
    fi
}

give_up() {
    echo "headgate needs Java $wanted or newer: $1" >&2
    exit 2
}

if have_java; then
    exit 0
fi
if [ -n "${JAVA_HOME:-}" ]; then
    give_up "JAVA_HOME=$JAVA_HOME is not that; unset it or point it at a newer one."
fi
if ! command -v apt-get >/dev/null 2>&1; then
    give_up "install a JRE (for example OpenJDK $wanted) and put java on PATH."
fi
if [ "$(id -u)" -ne 0 ]; then
    give_up "run 'apt-get install $(jre_package)' as root."
fi

apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$(jre_package)"
have_java || give_up "the installed package did not provide it; install OpenJDK $wanted by hand."
