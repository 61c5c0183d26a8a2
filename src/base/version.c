/* version.c - the version of the library. */
#include "hilbert/version.h"

_Static_assert(HIL_VERSION == HIL_PROJECT_VERSION,
               "include/hilbert/version.h and CMakeLists.txt name different versions");

#define TEXT(number) #number
#define JOIN(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *hil_version(void)
{
    return JOIN(HIL_VERSION_MAJOR, HIL_VERSION_MINOR, HIL_VERSION_PATCH);
}
