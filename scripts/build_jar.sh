#!/bin/sh
# Build headgate-local-fs.jar from java/src. The jar is in the repository, so only a change of the sources needs this.
# Usage: build_jar.sh [JAR]. Needs a JDK 17 and .venv. The same sources and JDK give the same bytes.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
jar_file=${1:-$root/headgate/task/jars/headgate-local-fs.jar}
python=${PYTHON:-$root/.venv/bin/python}

spark=$("$python" -c 'import os, pyspark
print(os.path.join(os.path.dirname(pyspark.__file__), "jars"))')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The compiler's version goes in, because another one may give other bytes.
{
    echo "Built-With: $(javac -version 2>&1)"
    echo "Sources-Sha256: $(cat "$root"/java/src/headgate/*/*.java | sha256sum | cut -d ' ' -f 1)"
} >"$work/manifest"
javac --release 17 -Xlint:all,-classfile,-path -Werror -cp "$spark/*" -d "$work/classes" "$root"/java/src/headgate/*/*.java
mkdir -p "$(dirname "$jar_file")"
jar --create --file "$jar_file" --manifest "$work/manifest" --date 2000-01-01T00:00:00Z -C "$work/classes" headgate
