#!/usr/bin/env bash
# Run all tests with the oldest versions that pyproject.toml allows, or with the newest that pip finds, in a separate
# environment under .versions (a few GB). CI does not run this script; CONTRIBUTING.md lists the results.
#
#   tools/versions.sh oldest [PYTHON]   every "name>=x" as name==x
#   tools/versions.sh newest [PYTHON]   without upper limits
#
# PYTHON is the interpreter (default: python3.10 for oldest, python3 for newest). Arguments after `--` are passed to pytest.
# ENVIRONMENT is the folder of the environment; an existing environment is updated and used again.
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
    # the oldest versions of the dependencies of the package and of the extra `test`
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


# matplotlib 3.9 and 3.10 call functions that pyparsing 3.3 deprecates
print(*sorted({*floors("dependencies"), *floors("test")}), "pyparsing<3.3", sep="\n")
EOF
fi
warnings=()
if [ "$which" = oldest ]; then
    # old libraries call deprecated functions of newer ones; an old Hypothesis warns that NumPy's generator may be lost,
    # because conftest excludes imported objects from garbage collection
    warnings=(-W ignore::DeprecationWarning -W ignore::FutureWarning -W ignore::hypothesis.errors.HypothesisWarning)
fi
pip install --quiet --upgrade --upgrade-strategy eager -c "$constraints" -e '.[test]'
python --version
pip list | grep -iE '^(torch|torchmetrics|numpy|scipy|lightning|typing.extensions|matplotlib|scikit-learn|pycocotools|pytest|hypothesis) '
pytest -n 2 "${warnings[@]}" "$@"
