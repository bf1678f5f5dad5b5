#!/usr/bin/env bash
# Build the site in build/docs: all pages, and the reference from the docstrings. A warning is an error. Neither the build
# nor the site loads files from other servers.
set -euo pipefail
cd "$(dirname "$0")/.."

python3 -c "import furo, myst_parser" 2>/dev/null || pip install --quiet -c constraints.txt -e '.[docs]'
rm -rf docs/reference  # remove the pages of deleted names
python3 -m sphinx --quiet --fail-on-warning --keep-going --jobs auto --conf-dir docs "$@" . build/docs
if grep -rlE '<(script|link|img)[^>]+(src|href)="(https?:)?//' build/docs --include='*.html'; then
    echo "these pages load files from other servers" >&2
    exit 1
fi
echo "the site is build/docs/index.html"
