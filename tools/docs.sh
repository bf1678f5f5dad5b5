#!/usr/bin/env bash
# The site, in build/docs: every page, and the reference from the docstrings. A warning is an error; the build fetches
# nothing, nor does the site.
set -euo pipefail
cd "$(dirname "$0")/.."

python3 -c "import furo, myst_parser" 2>/dev/null || pip install --quiet -c constraints.txt -e '.[docs]'
rm -rf docs/reference  # the pages of names that are gone
python3 -m sphinx --quiet --fail-on-warning --keep-going --jobs auto --conf-dir docs "$@" . build/docs
if grep -rlE '<(script|link|img)[^>]+(src|href)="(https?:)?//' build/docs --include='*.html'; then
    echo "these pages fetch something from elsewhere" >&2
    exit 1
fi
echo "the site is build/docs/index.html"
