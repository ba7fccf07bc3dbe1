#!/bin/sh
# Is there all that a build needs? One line per missing thing, with what to install; exit 1 when one is missing.
#     check_toolchain.sh PYTHON             compiler, Python >= 3.10, its headers, its venv module
#     check_toolchain.sh --sanitizers       whether the compiler links ASan and UBSan (says nothing)
CC=${CC:-cc}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

if [ "$1" = --sanitizers ]; then
    echo 'int main(void) { return 0; }' > "$dir/a.c"
    $CC -fsanitize=address,undefined "$dir/a.c" -o "$dir/a" 2> /dev/null && "$dir/a" 2> /dev/null
    exit
fi

python=$1
missing=0
need() {
    echo "quabla: $1" >&2
    missing=1
}

printf '#include <math.h>\n#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' > "$dir/a.c"
if ! command -v "${CC%% *}" > /dev/null; then
    need "no C compiler '$CC': install gcc or clang (Debian, Ubuntu: apt install gcc libc6-dev; Fedora: dnf install gcc)"
elif ! $CC -std=gnu17 "$dir/a.c" -o "$dir/a" 2> "$dir/log"; then
    need "'$CC' cannot build a C17 program: $(head -n 1 "$dir/log"): install the C library's headers and gcc >= 8 or clang >= 7 (Debian, Ubuntu: apt install gcc libc6-dev)"
fi

if ! command -v "$python" > /dev/null; then
    need "no '$python': install Python 3.10 or newer, or name one with make PYTHON=..."
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2> /dev/null; then
    need "'$python' is $("$python" --version 2>&1 | head -n 1): Python 3.10 or newer is needed; name one with make PYTHON=..."
else
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
    [ -f "$header" ] ||
        need "no Python.h for '$python': install its headers (Debian, Ubuntu: apt install python$version-dev; Fedora: dnf install python3-devel)"
    "$python" -c 'import venv, ensurepip' 2> /dev/null ||
        need "'$python' has no venv module: install it (Debian, Ubuntu: apt install python$version-venv)"
fi
exit $missing
