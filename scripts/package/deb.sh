#!/bin/sh
# deb.sh BUILD: makes Debian packages of what is in the build folder BUILD, in that folder, and checks them with lintian. The
# maintainer is that of DEBFULLNAME and DEBEMAIL.
set -eu
cd "$1"
rm -f tpx_*.deb tpx-mpi_*.deb
contact="${DEBFULLNAME-$(id -un)} <${DEBEMAIL-$(id -un)@$(hostname)}>"
cpack -G DEB -D CPACK_PACKAGE_CONTACT="$contact" -D CPACK_DEBIAN_PACKAGE_MAINTAINER="$contact" >cpack.log 2>&1 || { cat cpack.log; exit 1; }
# What lintian says of the address is about who calls this script.
lintian --allow-root --fail-on error --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,root-in-contact ./*.deb
ls -l ./*.deb
