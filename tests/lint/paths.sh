#!/bin/sh
# What exists is asked of lib/core/path.hpp alone, which does not take an error for absence. remove.cpp looks at all errors itself.
set -u
! grep -rnE --exclude=remove.cpp '(fs|filesystem)::(exists|is_[a-z]|(symlink_)?status\b|(recursive_)?directory_iterator|file_size|(weakly_)?canonical|create_dir)' \
    lib formats cmd
