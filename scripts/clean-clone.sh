#!/bin/sh
# Proves the README: a fresh clone with an empty environment and empty caches runs both of its commands.
# Usage: scripts/clean-clone.sh [FOLDER]       FOLDER must not exist; default: a new temporary one, removed when all is well
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
work=${1:-$(mktemp -d)/ds-dagster}
mkdir -p "$(dirname "$work")"
git clone --quiet "$source" "$work"
caches=$(dirname "$work")/caches
mkdir -p "$caches"

# nothing of the person's own caches or environment helps
unset VIRTUAL_ENV PYTHONPATH DS_STATE DS_PROFILE 2>/dev/null || true
export DS_CACHE="$caches/ds" XDG_CACHE_HOME="$caches/xdg" PIP_CACHE_DIR="$caches/pip" npm_config_cache="$caches/npm"
export MAVEN_OPTS="${MAVEN_OPTS:-} -Dmaven.repo.local=$caches/m2"

cd "$work"
echo "=== make demo-check in $work" >&2
make demo-check
echo "=== make test" >&2
make test
if [ $# -eq 0 ]; then
    rm -rf "$(dirname "$work")"
fi
echo "the clean clone passed" >&2
