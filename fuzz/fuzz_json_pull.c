/* fuzz_json_pull.c - any text, piece by piece: whatever is JSON is read to its end, with the same
   strings and numbers as by the whole parser. */
#include "base/json.h"
#include "base/json_pull.h"
#include "mutate.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_json)

/* Reads a value; where `expected` is not NULL, it must be that. */
static hil_status walk(hil_json_pull *pull, const json_t *expected)
{
    char first = hil_json_pull_peek(pull);
    hil_text text = {0};
    hil_status status = HIL_OK;
    int64_t number = 0;
    bool more = false;
    size_t i = 0;
    if (first == '{' || first == '[') {
        HIL_TRY_DONE(hil_json_pull_enter(pull, first, &more));
        while (more) {
            if (first == '{') HIL_TRY_DONE(hil_json_pull_key(pull, &text));
            const json_t *next = first == '['
                                     ? json_array_get(expected, i++)
                                     : json_object_get(expected, text.data ? text.data : "");
            if (expected && !next) __builtin_trap();
            HIL_TRY_DONE(walk(pull, next));
            HIL_TRY_DONE(hil_json_pull_next(pull, first, &more));
        }
    } else if (first == '"') {
        HIL_TRY_DONE(hil_json_pull_string(pull, &text));
        if (expected && (json_string_length(expected) != text.size ||
                         memcmp(json_string_value(expected), text.data, text.size) != 0))
            __builtin_trap();
    } else if (expected && json_is_integer(expected)) {
        HIL_TRY_DONE(hil_json_pull_int(pull, &number));
        if (number != json_integer_value(expected)) __builtin_trap();
    } else {
        HIL_TRY_DONE(hil_json_pull_skip(pull));
    }
done:
    hil_text_free(&text);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    json_t *whole = NULL;
    hil_json_pull pull = {(const char *)bytes, size, 0, "input"}, over = pull;
    bool known = hil_json_parse((const char *)bytes, size, "input", &whole) == HIL_OK;
    hil_status skipped = hil_json_pull_skip(&over);
    if (known && skipped != HIL_OK) __builtin_trap();
    /* Without the whole parser's limit on depth this would use up the stack. */
    if (known && walk(&pull, whole) != HIL_OK) __builtin_trap();
    if (known && pull.at != over.at) __builtin_trap();
    json_decref(whole);
    return 0;
}
