#!/bin/sh
# Install this project, editable, with all that its developers need. Usage: scripts/packages.sh VENV [-c CONSTRAINTS]
# uv takes a fifth of the time of pip. pip installs where uv fails: it knows indexes and certificates that uv is not told of.
set -eu
bin=$1/bin
shift
DIST_EXTRA_CONFIG=$(cd "$(dirname "$0")" && pwd)/wheels.cfg
export DIST_EXTRA_CONFIG
index=$("$bin/python" -m pip config get global.index-url 2>/dev/null || true)
if [ -z "${UV_DEFAULT_INDEX:-}" ] && [ -n "${PIP_INDEX_URL:-$index}" ]; then
    export UV_DEFAULT_INDEX="${PIP_INDEX_URL:-$index}"
fi
[ -t 2 ] || quiet=--quiet
if "$bin/python" -m pip install --quiet --disable-pip-version-check "$@" uv &&
    "$bin/uv" pip install ${quiet:-} --python "$bin/python" "$@" -e '.[dev]'; then
    exit 0
fi
echo "installing with pip" >&2
"$bin/python" -m pip install --disable-pip-version-check --no-compile --progress-bar on "$@" -e '.[dev]'
