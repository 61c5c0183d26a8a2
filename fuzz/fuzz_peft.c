/* fuzz_peft.c - any text as adapter_config.json: refused, or an adapter that survives a round trip.
 */
#include "format/peft.h"
#include "mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_json)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const modules[] = {"model.layers.0.self_attn.q_proj", "lm_head", ""};
    hil_peft p, again;
    hil_text text = {0};
    uint64_t key, same;
    if (hil_peft_parse(&p, (const char *)bytes, size, "input") != HIL_OK) return 0;
    hil_status status = hil_peft_write(&p, &text);
    assert(status == HIL_OK);
    status = hil_peft_parse(&again, text.data, text.size, "written");
    assert(status == HIL_OK);
    for (size_t i = 0; i < sizeof modules / sizeof *modules; ++i) {
        char name[HIL_PEFT_NAME];
        assert(hil_peft_rank(&p, modules[i]) > 0);
        assert(hil_peft_is_target(&p, modules[i]) == hil_peft_is_target(&again, modules[i]));
        assert(hil_peft_is_saved(&p, modules[i]) == hil_peft_is_saved(&again, modules[i]));
        hil_peft_tensor_name(&p, modules[i], name);
    }
    assert(hil_peft_key(&p, &key) == HIL_OK && hil_peft_key(&again, &same) == HIL_OK);
    assert(key == same);
    hil_text_free(&text);
    hil_peft_close(&p);
    hil_peft_close(&again);
    return 0;
}
