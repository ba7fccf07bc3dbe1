#!/bin/sh
# configure.sh DIR OPTION...: bring a build folder up to date. Configures again when it exists, so that new files are seen.
dir=$1
shift
mkdir -p "$dir"
again=
[ -f "$dir/build.ninja" ] && again=--reconfigure
meson setup $again "$dir" "$@" > "$dir/setup.log" 2>&1 || { cat "$dir/setup.log"; exit 1; }
ninja -C "$dir" --quiet
