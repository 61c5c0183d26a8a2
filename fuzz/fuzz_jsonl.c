/* fuzz_jsonl.c - any bytes as a file of records: the same documents or refusal however they are
 * cut. */
#include "base/hash.h"
#include "data/jsonl.h"
#include "mutate.h"
#include "pieces.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_jsonl)

/* Every message of a conversation has a role, and text for a content unless it calls a tool. */
static void check_conversation(const json_t *variables)
{
    const json_t *messages = json_object_get(variables, "messages"), *message;
    size_t i;
    if (json_array_size(messages) == 0) __builtin_trap();
    json_array_foreach(messages, i, message)
    {
        const json_t *content = json_object_get(message, "content");
        if (!json_is_string(json_object_get(message, "role"))) __builtin_trap();
        if (!json_is_string(content) && !json_object_get(message, "tool_calls")) __builtin_trap();
    }
}

static void add_conversation(const json_t *variables, uint64_t *hash)
{
    check_conversation(variables);
    char *text = json_dumps(variables, 0);
    if (!text) __builtin_trap();
    *hash = hil_hash(*hash, text, strlen(text));
    free(text);
}

static hil_status add_record(void *context, const hil_record *record, int64_t line)
{
    uint64_t *hash = context;
    *hash = hil_hash(*hash, record->prompt, record->prompt_size);
    *hash = hil_hash(*hash, record->text, record->text_size);
    *hash = hil_hash(*hash, record->rejected, record->rejected_size);
    *hash = hil_hash(*hash, &line, sizeof line);
    for (size_t i = 0; i < record->row.size; ++i)
        *hash = hil_hash(*hash, &record->row.token[i], sizeof record->row.token[i]);
    if (record->variables) add_conversation(record->variables, hash);
    if (record->worse) add_conversation(record->worse, hash);
    return HIL_OK;
}

static hil_status feed(const uint8_t *bytes, size_t size, size_t piece, uint64_t *hash)
{
    hil_jsonl jsonl = {.path = "input",
                       .line_max = 4096,
                       .take = add_record,
                       .context = hash,
                       .layout = size % 3 == 2 ? HIL_JSONL_VALUES : HIL_JSONL_LINES,
                       .rules.chat = size % 2,
                       .rules.format = size % 5 == 4   ? HIL_FORMAT_PREFERENCE
                                       : size % 5 == 3 ? HIL_FORMAT_JUDGED
                                                       : HIL_FORMAT_AUTO};
    hil_status status = HIL_OK;
    for (size_t i = 0; i < size && status == HIL_OK; i += piece)
        status =
            hil_jsonl_add(&jsonl, (const char *)bytes + i, piece < size - i ? piece : size - i);
    if (status == HIL_OK) status = hil_jsonl_end(&jsonl);
    hil_jsonl_free(&jsonl);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_pieces(bytes, size, feed);
    return 0;
}
