#!/usr/bin/env bash
# Build the sdist, and the wheel from it, in dist/. Check their contents. Install the wheel and its requirements in a new
# environment, and test it there, in a folder without the source.
#
#   tools/package.sh            some of the tests
#   tools/package.sh --full     all tests
#   tools/package.sh --tag v1   also check that the tag names the version
#
# PYTHON is the interpreter (default: python3).
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTEST_ADDOPTS PYTHONPATH

python=${PYTHON:-python3} full= tag=
while [ $# -gt 0 ]; do
    case $1 in
    --full) full=1 ;;
    --tag) tag=$2 && shift ;;
    *)
        sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
    shift
done
version=$("$python" -c 'import runpy; print(runpy.run_path("torch_ap/_version.py")["__version__"])')
if [ -n "$tag" ] && [ "$tag" != "v$version" ]; then
    echo "The tag is $tag and the version $version" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# build and twine have their own environment, because their dependencies may conflict with the caller's packages
"$python" -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet --no-compile build 'setuptools>=77' twine
isolated=(--no-isolation) # use the setuptools installed above
[ -z "$full" ] || isolated=()
rm -rf dist
"$work/tools/bin/python" -m build "${isolated[@]}" >"$work/build.log" 2>&1 || { cat "$work/build.log" && exit 1; }
"$work/tools/bin/python" -m twine check --strict dist/*
sdist=dist/torch_ap-$version.tar.gz wheel=dist/torch_ap-$version-py3-none-any.whl

# the sdist contains the files that git tracks and the files of setuptools; the wheel contains the package and its metadata
tar -xzf "$sdist" -C "$work"
mv "$work/torch_ap-$version" "$work/source"
diff <(git ls-files | LC_ALL=C sort) \
    <(cd "$work/source" && find . -type f ! -path './torch_ap.egg-info/*' ! -path ./PKG-INFO | sed 's,^\./,,' | LC_ALL=C sort)
diff <(git ls-files torch_ap | LC_ALL=C sort) \
    <("$python" -m zipfile -l "$wheel" | awk 'NR > 1 && $1 !~ /\.dist-info\// { print $1 }' | LC_ALL=C sort)

"$python" -m venv "$work/clean"
. "$work/clean/bin/activate"
wheel=$PWD/$wheel
cd "$work/source"
rm -r torch_ap
if [ -n "$full" ]; then
    pip install --quiet --no-compile -c constraints.txt "$wheel[test]"
    tests=(-n 2 tests)
else # only the requirements of the wheel, and the packages that run the tests
    pip install --quiet --no-compile -c constraints.txt "$wheel" hypothesis pytest pytest-xdist
    tests=(-q tests/core/test_average_precision.py tests/test_layers.py tests/apps/test_package.py)
fi
pip check
torch-ap --version | grep -x "torch-ap $version"
case $(python -c 'import torch_ap; print(torch_ap.__file__)') in
"$work"/clean/*) ;;
*) echo "The tested package is not the wheel" >&2 && exit 1 ;;
esac
pytest "${tests[@]}"
[ -z "$full" ] || pytest -q --pyargs torch_ap
