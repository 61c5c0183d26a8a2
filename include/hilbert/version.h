/* version.h - which hilbert this is, when compiling and when running. */
#ifndef HILBERT_VERSION_H
#define HILBERT_VERSION_H

#include "hilbert/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of the headers. While MAJOR is 0, a new MINOR may change the API; libhilbert.so.MAJOR.MINOR names
   what a program was linked with. */
#define HIL_VERSION_MAJOR 0
#define HIL_VERSION_MINOR 1
#define HIL_VERSION_PATCH 0
/* As one number, to compare: #if HIL_VERSION >= HIL_VERSION_NUMBER(0, 2, 0) */
#define HIL_VERSION_NUMBER(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define HIL_VERSION HIL_VERSION_NUMBER(HIL_VERSION_MAJOR, HIL_VERSION_MINOR, HIL_VERSION_PATCH)

/* Structures of options begin with their size, which a *_defaults function sets: the library takes
   them from programs that were compiled with older headers, and leaves what these do not have at
   its default. From newer ones it takes them as long as nothing is set that it does not know. */

/* Of the library that runs: "0.1.0". */
HIL_API const char *hil_version(void);

#ifdef __cplusplus
}
#endif
#endif
