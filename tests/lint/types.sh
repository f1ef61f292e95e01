#!/bin/sh
# No two headers define types with the same name in one namespace, because their functions would be the same symbols in
# a binary.
set -u
git ls-files 'lib/*.hpp' 'formats/*.hpp' 'cmd/*.hpp' 2>/dev/null | grep -q . || { echo "skipped: not in a git clone"; exit 77; }
twice=$(git ls-files 'lib/*.hpp' 'formats/*.hpp' 'cmd/*.hpp' | while read -r file; do
    awk '/^namespace [a-z:]+ \{/ { space = $2 }
         /^(struct|class|enum class) [A-Za-z]+( [:{]|$)/ && !/;$/ { name = $2 == "class" ? $3 : $2; print space "::" name }' "$file"
done | sort | uniq -d)
[ -z "$twice" ] || { echo "defined in two headers:" "$twice"; exit 1; }
