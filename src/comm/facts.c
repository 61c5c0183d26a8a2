/* facts.c - compares the facts of all ranks with those of rank 0: first a digest, and only if that
   differs the facts themselves. */
#include "comm/facts.h"

#include "base/hash.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { VALUE_SHOWN = 300 }; /* bytes of each value in a message */

hil_status hil_facts_add(hil_facts *facts, const char *name, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *value = NULL;
    hil_status status = HIL_ALLOC((size_t)size + 1, &value);
    if (status == HIL_OK) {
        vsnprintf(value, (size_t)size + 1, format, again);
        status = hil_text_add(&facts->text, name, strlen(name) + 1);
    }
    va_end(again);
    if (status == HIL_OK) status = hil_text_add(&facts->text, value, (size_t)size + 1);
    hil_free(value);
    return status;
}

void hil_facts_free(hil_facts *facts)
{
    hil_text_free(&facts->text);
}

/* Returns the string at *text and advances *text past it; "" at `end`. */
static const char *next(const char **text, const char *end)
{
    const char *string = *text;
    if (string == end) return "";
    *text += strlen(string) + 1;
    return string;
}

static hil_status name_difference(const hil_facts *facts, const char *first, size_t size,
                                  const char *advice)
{
    const char *mine = facts->text.size ? facts->text.data : "",
               *mine_end = mine + facts->text.size;
    const char *first_end = first + size;
    while (mine < mine_end || first < first_end) {
        const char *name = next(&mine, mine_end), *value = next(&mine, mine_end);
        const char *other = next(&first, first_end), *theirs = next(&first, first_end);
        if (strcmp(name, other) != 0)
            return hil_fail(HIL_ERR_USAGE, "%.*s here, but %.*s on rank 0: %s", VALUE_SHOWN,
                            *name ? name : "nothing", VALUE_SHOWN, *other ? other : "nothing",
                            advice);
        if (strcmp(value, theirs) != 0)
            return hil_fail(HIL_ERR_USAGE, "%s %.*s here, but %.*s on rank 0: %s", name,
                            VALUE_SHOWN, value, VALUE_SHOWN, theirs, advice);
    }
    return HIL_OK;
}

/* Some rank differs: rank 0 broadcasts its facts, and each rank looks for a difference. */
static hil_status find_difference(hil_comm *comm, const hil_facts *facts, size_t size,
                                  const char *advice)
{
    char *first = NULL;
    hil_status status =
        hil_comm_agree(comm, HIL_CHANNEL_CONTROL, HIL_ALLOC(size + 1, &first), NULL);
    if (status == HIL_OK && hil_comm_rank(comm) == 0) memcpy(first, facts->text.data, size);
    if (status == HIL_OK) status = hil_comm_broadcast(comm, HIL_CHANNEL_CONTROL, first, size);
    if (status == HIL_OK)
        status = hil_comm_agree(comm, HIL_CHANNEL_CONTROL,
                                name_difference(facts, first, size, advice), NULL);
    hil_free(first);
    return status;
}

hil_status hil_facts_compare(hil_comm *comm, const hil_facts *facts, hil_status mine,
                             const char *advice)
{
    struct digest {
        uint64_t size, hash;
    } own = {facts->text.size, hil_hash(0, facts->text.data, facts->text.size)}, first = own;
    if (hil_comm_size(comm) == 1) return mine;
    HIL_TRY(hil_comm_broadcast(comm, HIL_CHANNEL_CONTROL, &first, sizeof first));
    int differs = memcmp(&own, &first, sizeof own) != 0;
    HIL_TRY(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, mine, &differs));
    return differs ? find_difference(comm, facts, first.size, advice) : HIL_OK;
}

hil_status hil_comm_compare(hil_comm *comm, hil_status mine, const hil_fact *fact, size_t count,
                            const char *advice)
{
    hil_facts facts = {0};
    for (size_t i = 0; i < count && mine == HIL_OK; ++i)
        mine = hil_facts_add(&facts, fact[i].name, "%s", fact[i].value);
    hil_status status = hil_facts_compare(comm, &facts, mine, advice);
    hil_facts_free(&facts);
    return status;
}
