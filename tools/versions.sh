#!/usr/bin/env bash
# The whole suite on the oldest versions that pyproject.toml allows, or on the newest that pip finds, in an
# environment of its own under .versions (a few GB). Not in CI: what was run, and when, stands in CONTRIBUTING.md.
#
#   tools/versions.sh oldest [PYTHON]   every "name>=x" as name==x
#   tools/versions.sh newest [PYTHON]   nothing held back
#
# PYTHON is an interpreter, by default python3.10 for the oldest and python3 for the newest. What follows a `--` goes to
# pytest. ENVIRONMENT names another folder of the environment; one that is there is used again, and brought up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

which=${1:-}
case $which in
oldest) python=python3.10 ;;
newest) python=python3 ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
shift
if [ $# -gt 0 ] && [ "$1" != -- ]; then
    python=$1
    shift
fi
[ "${1:-}" != -- ] || shift

environment=${ENVIRONMENT:-.versions/$which-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')}
[ -x "$environment/bin/python" ] || "$python" -m venv "$environment"
. "$environment/bin/activate"
constraints=$environment/constraints.txt
: >"$constraints"
if [ "$which" = oldest ]; then
    # the floors of what this package and its tests need, and of no other extra
    python - >"$constraints" <<'EOF'
import pathlib
import re

lists = dict(re.findall(r"^([\w-]+) = (\[.*?\])$", pathlib.Path("pyproject.toml").read_text(), re.DOTALL | re.MULTILINE))


def floors(key):
    for name, extras, floor in re.findall(r'"([\w-]+)(?:\[(.*?)\])?(?:>=([\d.]+))?[^"]*"', lists[key]):
        if floor:
            yield f"{name}=={floor}"
        for extra in extras.split(",") if extras else ():
            yield from floors(extra)


# of this one matplotlib 3.9 and 3.10 call what 3.3 deprecates
print(*sorted({*floors("dependencies"), *floors("test")}), "pyparsing<3.3", sep="\n")
EOF
fi
warnings=()
if [ "$which" = oldest ]; then
    # what old libraries do is deprecated by younger ones, which pip chooses; an old Hypothesis takes NumPy's generator
    # for one that may be lost, as conftest hides what is imported from the search for garbage
    warnings=(-W ignore::DeprecationWarning -W ignore::FutureWarning -W ignore::hypothesis.errors.HypothesisWarning)
fi
pip install --quiet --upgrade --upgrade-strategy eager -c "$constraints" -e '.[test]'
python --version
pip list | grep -iE '^(torch|torchmetrics|numpy|scipy|lightning|typing.extensions|matplotlib|scikit-learn|pycocotools|pytest|hypothesis) '
pytest -n 2 "${warnings[@]}" "$@"
