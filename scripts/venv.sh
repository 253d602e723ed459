#!/bin/sh
# Make the virtual environment with any Python that is new enough. Usage: scripts/venv.sh FOLDER
set -eu
folder=$1
if [ -x "$folder/bin/python" ] && "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi
for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10 python; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (4, 0))' 2>/dev/null; then
        echo "making $folder with $("$candidate" --version)" >&2
        "$candidate" -m venv --clear "$folder" && exit 0
        echo "making the environment failed; on Debian: apt-get install python3-venv" >&2
        exit 1
    fi
done
echo "no Python 3.10 or newer found; set PYTHON to one" >&2
exit 1
