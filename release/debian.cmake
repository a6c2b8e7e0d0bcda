# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# For cpack: the Debian package of the tree in $root, of $version.
# One package and no -dev beside it: build files made for CANN expect headers and libraries in one prefix, and a program that
# is built elsewhere can take the library along.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME aclgrad)
set(CPACK_PACKAGE_VERSION $ENV{version})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_PACKAGE_VENDOR "the aclgrad authors")
set(CPACK_PACKAGE_CONTACT "$ENV{maintainer}")
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "$ENV{ACLGRAD_REPOSITORY}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Ascend's aclnn gradient operators on Linux machines without an NPU")
set(CPACK_PACKAGE_DESCRIPTION "Multi-scale deformable attention, NSA compression, grid sampling and
grouped bias-add with their gradients, on the processor, behind the C
interface that programs for Ascend's NPUs use.
Source /usr/lib/aclgrad/set_env.sh to build and run such programs.
Report mistakes on the repository's issue tracker, and vulnerabilities as
/usr/share/doc/aclgrad/SECURITY.md says.")
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_INSTALLED_DIRECTORIES "$ENV{root};/")
set(CPACK_PACKAGING_INSTALL_PREFIX /)
set(CPACK_PACKAGE_FILE_NAME aclgrad)  # its own file names follow Debian's custom
