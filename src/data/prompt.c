/* prompt.c - the ids that a model gets before it continues a prompt. */
#include "data/prompt.h"

#include <string.h>

static hil_status add_text(const hil_prompter *prompter, const char *text, size_t size,
                           hil_ids *ids)
{
    if (prompter->encoder) return hil_encoder_add(prompter->encoder, text, size, ids);
    HIL_TRY(HIL_GROW(&ids->data, &ids->capacity, ids->size + size));
    for (size_t i = 0; i < size; ++i) ids->data[ids->size++] = (unsigned char)text[i];
    return HIL_OK;
}

static hil_status end_text(const hil_prompter *prompter, hil_ids *ids)
{
    return prompter->encoder ? hil_encoder_end(prompter->encoder, ids) : HIL_OK;
}

hil_status hil_prompter_text(const hil_prompter *prompter, const char *text, size_t size,
                             hil_ids *ids)
{
    HIL_TRY(add_text(prompter, text, size, ids));
    return end_text(prompter, ids);
}

hil_status hil_prompt_encode(const hil_prompter *prompter, const char *text, size_t size,
                             hil_ids *ids, size_t *text_at)
{
    size_t before = ids->size;
    if (prompter->tokenizer) HIL_TRY(hil_tokenizer_prefix(prompter->tokenizer, ids));
    if (text_at) *text_at = ids->size;
    HIL_TRY(hil_prompter_text(prompter, text, size, ids));
    if (ids->size > before) return HIL_OK;
    int64_t start = prompter->tokenizer && prompter->bos >= 0 ? prompter->bos : prompter->eot;
    if (start >= 0) HIL_TRY(hil_ids_add(ids, (int32_t)start));
    if (text_at) *text_at = ids->size;
    return HIL_OK;
}

/* Both, before the end of the completion. */
static hil_status encode_parts(const hil_prompter *prompter, const hil_record *record,
                               hil_ids *prompt, hil_ids *completion)
{
    size_t at;
    prompt->size = completion->size = 0;
    HIL_TRY(hil_prompt_encode(prompter, record->prompt, record->prompt_size, prompt, &at));
    HIL_TRY(add_text(prompter, record->prompt, record->prompt_size, completion));
    HIL_TRY(add_text(prompter, record->text, record->text_size, completion));
    HIL_TRY(end_text(prompter, completion));
    size_t size = prompt->size - at;
    if (size == 0) return HIL_OK;
    if (completion->size >= size && memcmp(completion->data, prompt->data + at, size * 4) == 0) {
        completion->size -= size;
        memmove(completion->data, completion->data + size, completion->size * 4);
        return HIL_OK;
    }
    completion->size = 0;
    return hil_prompter_text(prompter, record->text, record->text_size, completion);
}

static bool is_stop(const hil_prompter *prompter, int32_t id)
{
    for (const int64_t *stop = prompter->stops; stop && *stop >= 0; ++stop)
        if (id == *stop) return true;
    return id == prompter->eot;
}

hil_status hil_prompter_example(const hil_prompter *prompter, const hil_record *record,
                                hil_ids *prompt, hil_ids *completion)
{
    HIL_TRY(encode_parts(prompter, record, prompt, completion));
    size_t size = completion->size;
    if (prompter->eot < 0 || (size && is_stop(prompter, completion->data[size - 1]))) return HIL_OK;
    return hil_ids_add(completion, (int32_t)prompter->eot);
}
