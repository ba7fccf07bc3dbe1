#!/bin/sh
# Format and static checks of the whole tree. A tool that is not installed is named, and its check left out.
failed=0
check() {
    if ! command -v "$1" > /dev/null; then
        echo "lint: no $1 here, its check is left out"
        return
    fi
    "$@" || failed=1
}

check ruff check -q .
check ruff format -q --check .
check clang-format --dry-run --Werror $(find src python/ext tests/c examples/c -name '*.c')
# Extension and core, by the flags of the normal build.
check clang-tidy -p build --quiet $(find src python/ext -name '*.c')
exit $failed
