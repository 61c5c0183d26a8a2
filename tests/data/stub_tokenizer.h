/* stub_tokenizer.h - stands in while no tokenizer is linked; never called with byte data. */
#include "format/tokenizer.h"

#include <stdlib.h>

hil_status hil_encoder_create(hil_encoder **out, const hil_tokenizer *tokenizer)
{
    (void)out;
    (void)tokenizer;
    abort();
}
void hil_encoder_destroy(hil_encoder *encoder)
{
    (void)encoder;
    abort();
}
hil_status hil_encoder_add(hil_encoder *encoder, const char *text, size_t size, hil_ids *ids)
{
    (void)encoder;
    (void)text;
    (void)size;
    (void)ids;
    abort();
}
hil_status hil_encoder_end(hil_encoder *encoder, hil_ids *ids)
{
    (void)encoder;
    (void)ids;
    abort();
}
void hil_ids_free(hil_ids *ids)
{
    hil_free(ids->data);
}
