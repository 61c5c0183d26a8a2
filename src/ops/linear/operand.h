/* operand.h - the factors of a linear layer's products: as they are, or rounded to 8 bits
   ([Note: FP8] in tensor/fp8.h). */
#ifndef HIL_OPS_LINEAR_OPERAND_H
#define HIL_OPS_LINEAR_OPERAND_H

#include "ops/op.h"
#include "tensor/fp8.h"

/* Parts of the scratch for what in[0], a tile of param[0] and dout[0] are rounded to, in bf16. All
   NULL unless param[0] is for products in 8 bits; dy is for backward only. */
typedef struct hil_operands {
    uint16_t *x, *w, *dy;
} hil_operands;
/* Places them after the first *bytes of the call's scratch, and adds their size to it. */
hil_operands hil_operands_place(const hil_op_call *call, bool backward, size_t *bytes);

/* Rounds `count` bf16 numbers of one tensor to 8 bits and writes what they became to `to`. Returns
   `to`; if that is NULL, `from` as it is. */
const void *hil_operand_round(hil_pool *pool, hil_fp8 kind, const void *from, int64_t count,
                              uint16_t *to);
/* The same of a whole tensor. */
hil_tensor hil_operand_tensor(hil_pool *pool, hil_fp8 kind, const hil_tensor *from, uint16_t *to);

#endif
