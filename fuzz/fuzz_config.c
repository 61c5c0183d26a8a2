/* fuzz_config.c - any text as config.json: refused, or sane numbers; an edit stays readable. Any
   text as the state of a quantized tensor. */
#include "model/config/config.h"
#include "format/quantized.h"
#include "mutate.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_json)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_config c, again;
    hil_quantized_state state;
    hil_text text = {0};
    if (hil_quantized_state_parse(&state, (const char *)bytes, size, "input") == HIL_OK)
        assert(!isnan(state.offset));
    if (hil_config_parse(&c, (const char *)bytes, size, "input") != HIL_OK) return 0;
    assert(c.vocab > 0 && c.hidden > 0 && c.layers > 0 && c.intermediate > 0);
    assert(c.heads > 0 && c.head_dim > 0 && c.kv_heads > 0 && c.heads % c.kv_heads == 0);
    assert(c.max_positions > 0 && c.norm_eps > 0 && c.rope.theta > 0 && c.rope.factor > 0);
    assert(c.eos < c.vocab && c.bos < c.vocab && c.pad < c.vocab);
    for (int64_t i = 0; i < c.layers; ++i) assert(hil_config_window(&c, i) >= 0);
    hil_status status = hil_config_edit(&text, (const char *)bytes, size, HIL_BF16, HIL_QUANT_NONE);
    assert(status == HIL_OK);
    status = hil_config_parse(&again, text.data, text.size, "edited");
    assert(status == HIL_OK && again.hidden == c.hidden);
    hil_text_free(&text);
    return 0;
}
