/* config_text.h - the text model in the config.json of a model that has images or sounds, too.

   [Note: text models] Of such a folder only the text model is used. Its config becomes that of the
   folder as soon as it is read, so what is saved is a folder of the text model alone. */
#ifndef HIL_MODEL_CONFIG_CONFIG_TEXT_H
#define HIL_MODEL_CONFIG_CONFIG_TEXT_H

#include "base/json.h"
#include "model/config/config.h"

typedef struct hil_config_text {
    json_t *object; /* config of the text model, which the caller releases; NULL: `object` has none
                       that is supported, or is a text model itself */
    char whole[64]; /* model_type of the whole */
    char left_out[HIL_CONFIG_LEFT_OUT]; /* "vision, audio" */
    bool packed;                        /* its experts are in MXFP4 */
    hil_quant_packing packing;          /* its matrices are in groups */
} hil_config_text;
hil_status hil_config_text_find(const json_t *object, hil_config_text *out);
/* Replaces the bytes of a config.json by those of what is saved; unchanged where there is none. */
hil_status hil_config_text_write(hil_bytes *bytes);

#endif
