/* config_quant.c - what config.json says of quantized weights. */
#include "model/config/config_read.h"

#include <string.h>

static hil_status read_bitsandbytes(const json_t *config, const char *what, hil_quant *out)
{
    bool four = false, eight = false;
    const char *type = "fp4"; /* what bitsandbytes takes where nothing is said */
    HIL_TRY(hil_json_bool(config, "load_in_4bit", what, &four));
    HIL_TRY(hil_json_bool(config, "load_in_8bit", what, &eight));
    HIL_TRY(hil_json_string(config, "bnb_4bit_quant_type", what, &type));
    if (four == eight)
        return hil_fail(HIL_ERR_INPUT, "%s: quantization_config says neither 4 nor 8 bits, or both",
                        what);
    if (four && strcmp(type, "nf4") != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: bnb_4bit_quant_type is %.40s; only nf4 is supported. Take the "
                        "original model with --base-dtype nf4",
                        what, type);
    *out = four ? HIL_QUANT_NF4 : HIL_QUANT_INT8;
    return HIL_OK;
}

static hil_status check_squares(const json_t *config, const char *what)
{
    const json_t *size = json_object_get(config, "weight_block_size");
    bool fits = json_is_array(size) && json_array_size(size) == 2;
    for (size_t i = 0; fits && i < 2; ++i)
        fits = json_integer_value(json_array_get(size, i)) == HIL_QUANT_SQUARE;
    if (fits) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "%s: weight_block_size of the fp8 weights must be [%d, %d]; take the original "
                    "model with --base-dtype fp8",
                    what, HIL_QUANT_SQUARE, HIL_QUANT_SQUARE);
}

hil_status hil_config_quant(const hil_config_reader *r)
{
    const json_t *config = json_object_get(r->object, "quantization_config");
    const char *method = NULL, *what = r->what;
    hil_quant *out = &r->config->quant;
    *out = HIL_QUANT_NONE;
    if (!config || json_is_null(config)) return HIL_OK;
    if (!json_is_object(config))
        return hil_fail(HIL_ERR_INPUT, "%s: quantization_config must be an object", what);
    if (!json_object_size(config)) return HIL_OK;
    HIL_TRY(hil_json_string(config, "quant_method", what, &method));
    bool loads = json_object_get(config, "load_in_4bit") || json_object_get(config, "load_in_8bit");
    if (!method && loads) method = "bitsandbytes";
    if (method && strcmp(method, "bitsandbytes") == 0) return read_bitsandbytes(config, what, out);
    if (!method || strcmp(method, "fp8") != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: quantized weights of the method %.40s are not supported, only those "
                        "of bitsandbytes (nf4, int8) and fp8; take the original model with "
                        "--base-dtype nf4",
                        what, method ? method : "without a name");
    *out = HIL_QUANT_FP8;
    return check_squares(config, what);
}

hil_status hil_config_quant_write(hil_text *out, hil_quant quant, hil_dtype compute)
{
    bool four = quant == HIL_QUANT_NF4;
    const char *no = "false", *yes = "true";
    if (quant == HIL_QUANT_FP8)
        return hil_text_print(out,
                              "{\n    \"activation_scheme\": \"dynamic\",\n"
                              "    \"modules_to_not_convert\": [\"lm_head\"],\n"
                              "    \"quant_method\": \"fp8\",\n"
                              "    \"weight_block_size\": [%d, %d]\n  }",
                              HIL_QUANT_SQUARE, HIL_QUANT_SQUARE);
    return hil_text_print(out,
                          "{\n    \"_load_in_4bit\": %s,\n    \"_load_in_8bit\": %s,\n"
                          "    \"bnb_4bit_compute_dtype\": %s,\n"
                          "    \"bnb_4bit_quant_storage\": \"uint8\",\n"
                          "    \"bnb_4bit_quant_type\": \"%s\",\n"
                          "    \"bnb_4bit_use_double_quant\": %s,\n"
                          "    \"llm_int8_enable_fp32_cpu_offload\": false,\n"
                          "    \"llm_int8_has_fp16_weight\": false,\n"
                          "    \"llm_int8_skip_modules\": [\"lm_head\"],\n"
                          "    \"llm_int8_threshold\": 6.0,\n"
                          "    \"load_in_4bit\": %s,\n    \"load_in_8bit\": %s,\n"
                          "    \"quant_method\": \"bitsandbytes\"\n  }",
                          four ? yes : no, four ? no : yes, hil_config_torch_name(compute),
                          four ? "nf4" : "fp4", four ? yes : no, four ? yes : no, four ? no : yes);
}
