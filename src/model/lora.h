/* lora.h - adds an adapter to a model, before the model has a trainer. */
#ifndef HIL_MODEL_LORA_H
#define HIL_MODEL_LORA_H

#include "autograd/model.h"
#include "format/peft.h"

/* What was added to a model. */
typedef struct hil_lora {
    size_t matrices; /* that have an adapter */
    size_t blocks;   /* that hold them */
    int64_t least_rank, most_rank;
} hil_lora;

/* Freezes the model's parameters, but for modules and biases that are trained whole, and gives
   every target its adapter. Names of the adapter's parameters are those of PEFT's files. Replaces
   "all-linear" in the config by the names of the layers, as PEFT does. */
hil_status hil_lora_attach(hil_model *model, hil_peft *peft, hil_lora *out);

#endif
