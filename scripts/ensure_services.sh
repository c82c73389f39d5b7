#!/bin/sh
# Make sure that the servers for tests and examples are there: PostgreSQL and MariaDB from Debian's packages, and the
# jars of Kafka, OpenSearch and HBase from Maven, in build/services; and chromium, in which the web UI is tested.
# Silent and quick when all is there.
# With names, as in `ensure_services.sh kafka postgres`, only those.
set -eu

names=$*

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/services
export DEBIAN_FRONTEND=noninteractive

give_up() {
    echo "make services: $1" >&2
    exit 2
}

# Run a command whose output nobody needs while it works. $1 says what it does.
quietly() {
    what=$1
    shift
    "$@" >"$build/last.log" 2>&1 </dev/null ||
        give_up "cannot $what: $(sed -n 's/.*\[ERROR\] //p; s/^E: //p' "$build/last.log" | head -n 1) (see build/services/last.log)"
}

# Whether a server is wanted: all are, unless some are named.
wanted() {
    case " $names " in
        "  " | *" $1 "*) return 0 ;;
        *) return 1 ;;
    esac
}

missing_packages() {
    if wanted postgres; then
        set -- /usr/lib/postgresql/*/bin/initdb
        [ -x "$1" ] || echo postgresql
    fi
    if wanted mariadb; then
        { command -v mariadbd || [ -x /usr/sbin/mariadbd ]; } >/dev/null 2>&1 || echo mariadb-server-core
        command -v mariadb >/dev/null 2>&1 || echo mariadb-client-core
    fi
    if wanted chromium; then
        [ -x /usr/bin/chromium ] || echo chromium
    fi
    command -v openssl >/dev/null 2>&1 || echo openssl
    if [ -n "$(stale_jars)" ]; then
        command -v mvn >/dev/null 2>&1 || echo maven
    fi
}

# The names of the servers whose jars were never fetched, or fetched for another pom.
stale_jars() {
    for pom in "$root"/services/poms/*/pom.xml; do
        name=$(basename "$(dirname "$pom")")
        ! wanted "$name" || cmp -s "$pom" "$build/$name/pom.xml" || echo "$name"
    done
}

# Debian starts what it installs, and makes a first database. The tests start their own, so neither is wanted.
install_packages() {
    command -v apt-get >/dev/null 2>&1 || give_up "install these, for there is no apt-get: $*"
    [ "$(id -u)" -eq 0 ] || give_up "run 'apt-get install --no-install-recommends $*' as root."
    policy=
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        policy=/usr/sbin/policy-rc.d
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        mkdir -p /etc/postgresql-common
        echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    fi
    quietly "read the list of packages" apt-get update -o Acquire::Retries=5
    quietly "install $*" apt-get install -y --no-install-recommends -o Acquire::Retries=5 \
        -o Dpkg::Options::=--force-confold "$@"
    [ -z "$policy" ] || rm -f "$policy"
    trap - EXIT
}

# The pom is copied last, so that an interrupted fetch is repeated.
fetch_jars() {
    rm -rf "$build/$1.new"
    quietly "fetch the jars of $1" mvn -q -B -U -Dmaven.wagon.http.retryHandler.count=5 \
        -f "$root/services/poms/$1/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime "-DoutputDirectory=$build/$1.new"
    cp "$root/services/poms/$1/pom.xml" "$build/$1.new/pom.xml"
    rm -rf "${build:?}/$1"
    mv "$build/$1.new" "$build/$1"
}

for name in $names; do
    case $name in
        postgres | mariadb | chromium) ;;
        *) [ -f "$root/services/poms/$name/pom.xml" ] || give_up "there is no server $name" ;;
    esac
done

if [ -z "$(missing_packages)$(stale_jars)" ]; then
    exit 0
fi

# One at a time: the second finds that the first has done the work.
mkdir -p "$build"
exec 9>"$build/lock"
flock 9
packages=$(missing_packages | tr '\n' ' ')
if [ -n "$packages" ]; then
    # shellcheck disable=SC2086 # a list of words
    install_packages $packages
fi
for name in $(stale_jars); do
    fetch_jars "$name"
done
