/* sized.c - structures of options from programs that were compiled with other headers. */
#include "base/sized.h"

#include "hilbert/version.h"

#include <string.h>

/* More bytes than any structure of options will have: beyond it, `size` was never set. */
#define SIZE_LIMIT ((size_t)1 << 16)

void hil_sized_fill(void *out, size_t size, const void *defaults, size_t own)
{
    memset(out, 0, size);
    memcpy(out, defaults, size < own ? size : own);
    memcpy(out, &size, sizeof size);
}

hil_status hil_sized_take(void *out, size_t own, const void *given, const char *stem)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > SIZE_LIMIT)
        return hil_fail(HIL_ERR_USAGE,
                        "%s_options has no size: call %s_defaults before setting options", stem,
                        stem);
    for (size_t i = own; i < size; ++i)
        if (((const char *)given)[i] != 0)
            return hil_fail(HIL_ERR_USAGE,
                            "%s_options sets options that hilbert %s does not know: link the "
                            "library whose headers the program was compiled with",
                            stem, hil_version());
    memcpy(out, given, size < own ? size : own);
    memcpy(out, &own, sizeof own);
    return HIL_OK;
}
