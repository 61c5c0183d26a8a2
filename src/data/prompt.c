/* prompt.c - the ids that a model gets before it continues a prompt. */
#include "data/prompt.h"

hil_status hil_prompter_text(const hil_prompter *prompter, const char *text, size_t size,
                             hil_ids *ids)
{
    if (prompter->encoder) {
        HIL_TRY(hil_encoder_add(prompter->encoder, text, size, ids));
        return hil_encoder_end(prompter->encoder, ids);
    }
    HIL_TRY(HIL_GROW(&ids->data, &ids->capacity, ids->size + size));
    for (size_t i = 0; i < size; ++i) ids->data[ids->size++] = (unsigned char)text[i];
    return HIL_OK;
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
