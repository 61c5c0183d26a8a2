/* freeze.c - shell patterns over parameter names. */
#include "train/freeze.h"

#include "base/alloc.h"
#include "base/text.h"

#include <fnmatch.h>

static hil_status no_such(hil_store *store, const char *pattern)
{
    size_t count = hil_store_count(store);
    const char **names;
    HIL_TRY(HIL_ALLOC(count + 1, &names));
    for (size_t i = 0; i < count; ++i) names[i] = hil_param_spec_of(hil_store_at(store, i))->name;
    const char *near = hil_text_nearest(pattern, names, count);
    hil_status status =
        near ? hil_fail(HIL_ERR_USAGE, "--freeze %s matches no parameter; did you mean %s?",
                        pattern, near)
             : hil_fail(
                   HIL_ERR_USAGE,
                   "--freeze %s matches no parameter; their names are %s to %s (hilbert inspect "
                   "lists them all)",
                   pattern, names[0], names[count - 1]);
    hil_free(names);
    return status;
}

hil_status hil_freeze(hil_store *store, const char *const *pattern, size_t count)
{
    size_t left = 0;
    for (size_t k = 0; k < count; ++k) {
        size_t fits = 0;
        for (size_t i = 0; i < hil_store_count(store); ++i) {
            hil_param *p = hil_store_at(store, i);
            if (fnmatch(pattern[k], hil_param_spec_of(p)->name, 0) != 0) continue;
            hil_param_freeze(p);
            ++fits;
        }
        if (!fits) return no_such(store, pattern[k]);
    }
    for (size_t i = 0; i < hil_store_count(store); ++i)
        left += hil_param_trainable(hil_store_at(store, i));
    if (!left) return hil_fail(HIL_ERR_USAGE, "--freeze leaves no parameter to train");
    return HIL_OK;
}
