#!/bin/sh
# Format and static checks of the whole tree. A tool that is not installed is named, and its check left out.
failed=0
has() {
    command -v "$1" > /dev/null || { echo "lint: no $1 here, its checks are left out"; false; }
}

if has ruff; then
    ruff check -q . || failed=1
    ruff format -q --check . || failed=1
fi
if has clang-format; then
    find src python/ext tests/c examples/c -name '*.c' -exec clang-format --dry-run --Werror {} + || failed=1
fi
# Core and extension, by the flags of the normal build.
if has clang-tidy; then
    find src python/ext -name '*.c' -print0 | xargs -0 -n 4 -P 2 clang-tidy -p build --quiet || failed=1
fi
exit $failed
