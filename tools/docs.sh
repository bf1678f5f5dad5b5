#!/usr/bin/env bash
# The site, in build/site: every page and the reference from the docstrings. A warning is an error; nothing is fetched.
# Needs the extra `docs`.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf docs/reference  # what the docstrings' pages were made of the last time
python3 -m sphinx --quiet --fail-on-warning --keep-going --jobs auto --conf-dir docs "$@" . build/site
echo "the site is build/site/index.html"
