/* peft_experts.h - adapters of experts, as PEFT stacks them in one pair of tensors for a layer. */
#ifndef HIL_FORMAT_PEFT_EXPERTS_H
#define HIL_FORMAT_PEFT_EXPERTS_H

#include "format/peft.h"
#include "format/safetensors.h"
#include "format/stacked_names.h"
#include "store/param.h"

/* [Note: adapters of experts] transformers 5 has the matrices of all experts of a layer in 3-D
   parameters, which adapter_config.json lists as target_parameters. PEFT gives each of them one A
   (experts * rank, in), in which the experts follow each other, and one B (out, rank * experts), in
   whose rows the experts are interleaved, number by number. Gate and up are one parameter: they
   share A, and their rows of B follow each other, or alternate where the parameter's do (gpt-oss).
   A second parameter of the same module wraps the
   first one, whose tensors then have ".base_layer" in their names. The model has an A and a B for
   each expert, named after its matrix; A after that of the gate. Where the parameter holds
   transposed matrices and PEFT does not know it (Llama 4), its A is the transpose of our B, and its
   B that of our A. */

/* Where the matrix of an adapter is in PEFT's tensors. */
typedef struct hil_peft_place {
    char tensor[HIL_PEFT_NAME];
    hil_shape whole;
    int64_t index, members; /* its number among the matrices of the tensor */
    int64_t stride;         /* so many matrices are interleaved; 1: they follow each other */
    int64_t run; /* after so many numbers of each of those, the next ones follow; 0: after all */
    bool turned; /* it has the transposes of the matrices */
} hil_peft_place;

/* False: PEFT has it under the name of hil_peft_tensor_name. */
bool hil_peft_place_of(const hil_peft *peft, const hil_config *config, const char *param,
                       const hil_shape *shape, hil_peft_place *out);

/* The module of a parameter in memory of transformers 5, which is what targets name. Returns the
   last part of the parameter's name. */
const char *hil_peft_memory_module(const hil_config *config, const char *param,
                                   char module[HIL_PEFT_NAME]);

/* The name that transformers 5 has in memory for the matrix, or for the tensor that holds it. *row
   is NULL for a matrix that it does not rename. */
void hil_peft_parameter_name(const hil_config *config, const char *param, char out[HIL_PEFT_NAME],
                             const hil_arch_stack **row, int64_t *expert);

/* Opens the weights of an adapter folder under the names that the parameters of the store have.
   Keeps nothing of its arguments. */
hil_status hil_peft_experts_open(hil_safetensors **out, const char *folder, const hil_peft *peft,
                                 const hil_config *config, const hil_store *store);

#endif
