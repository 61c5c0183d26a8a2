/* lora.h - adds an adapter to a model, before the model has a trainer. */
#ifndef HIL_MODEL_LORA_H
#define HIL_MODEL_LORA_H

#include "autograd/model.h"
#include "comm/comm.h"
#include "format/peft.h"
#include "model/config/config.h"

/* What was added to a model. */
typedef struct hil_lora {
    size_t matrices; /* that have an adapter */
    size_t blocks;   /* that hold them */
    int64_t least_rank, most_rank;
    int last; /* block that holds the last one */
} hil_lora;

/* Refuses a target of a new adapter that is neither a linear layer nor a matrix of experts. (PEFT's
   folders may name more.) */
hil_status hil_lora_check(const hil_model *model, const hil_config *config, const hil_peft *peft);
/* Freezes the model's parameters, but for modules and biases that are trained whole, and gives
   every target its adapter. Names of the adapter's parameters are those of PEFT's files, but for
   [Note: adapters of experts]. Replaces "all-linear" in the config by the names of the layers, and
   moves names of experts to its list of parameters, as PEFT does. */
hil_status hil_lora_attach(hil_model *model, const hil_config *config, hil_peft *peft,
                           hil_lora *out);

/* Sets the magnitudes of a new DoRA adapter, whose B is zero, to the norms of the rows of the
   weights. All ranks call it together. */
hil_status hil_lora_fill_magnitudes(const hil_model *model, hil_comm *comm);

#endif
