/* test_rope.c - rotary positions, forward and backward. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    const hil_rope_attr *attr = c->attr;
    const float *frequency = attr->frequency;
    const int64_t *d = c->in_shape[0].dim;
    int64_t half = (attr->dims ? attr->dims : d[3] - attr->first) / 2;
    for (int64_t i = 0; i < hil_shape_count(&c->in_shape[0]); ++i) out[0][i] = in[0][i];
    for (int64_t r = 0; r < d[0] * d[1]; ++r)
        for (int64_t h = 0; h < d[2]; ++h)
            for (int64_t i = 0; i < half; ++i) {
                double factor = attr->factor > 0 ? attr->factor : 1;
                if (attr->growth != 0)
                    factor *=
                        1 + attr->growth * log(1 + floor((in[1][r] + (double)attr->growth_shift) /
                                                         (double)attr->growth_from));
                double angle = (double)((float)in[1][r] * frequency[i]); /* product in fp32 */
                int64_t head = (r * d[2] + h) * d[3] + attr->first;
                int64_t low = head + (attr->interleaved ? 2 * i : i);
                int64_t high = attr->interleaved ? low + 1 : low + half;
                out[0][low] = factor * (in[0][low] * cos(angle) - in[0][high] * sin(angle));
                out[0][high] = factor * (in[0][high] * cos(angle) + in[0][low] * sin(angle));
            }
}

static const int32_t positions[] = {0, 1, 2, 131071, 5, 0, 1000003, 7, 12345, 99};
static const float frequency[] = {1,       0.5623413f, 0.31622776f, 0.1778279f, 0.1f,  0.05f,
                                  0.0123f, 0.01f,      3e-3f,       1e-3f,      7e-4f, 3e-4f,
                                  1e-4f,   5e-5f,      2e-5f,       1e-5f,      1e-6f};

int main(void)
{
    static const hil_rope_attr attr = {.frequency = frequency};
    static const hil_shape shapes[] = {{4, {1, 1, 1, 2}}, {4, {2, 0, 3, 4}},  {4, {2, 3, 3, 6}},
                                       {4, {1, 9, 1, 4}}, {4, {2, 2, 1, 34}}, {4, {1, 2, 0, 4}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        hil_shape ids = {2, {shapes[i].dim[0], shapes[i].dim[1]}};
        op_check_dtypes((op_case){.op = &hil_op_rope,
                                  .attr = &attr,
                                  .reference = reference,
                                  .ins = 2,
                                  .outs = 1,
                                  .in_shape = {shapes[i], ids},
                                  .ids = {NULL, positions}});
    }
    static const hil_rope_attr variants[] = {
        {.frequency = frequency, .dims = 4},
        {.frequency = frequency, .interleaved = true},
        {.frequency = frequency, .dims = 4, .interleaved = true, .factor = 1.3},
        {.frequency = frequency, .factor = 0.7},
        {.frequency = frequency, .first = 4},
        {.frequency = frequency, .first = 3, .dims = 6},
        {.frequency = frequency, .first = 2, .dims = 6, .interleaved = true, .factor = 1.3},
        {.frequency = frequency, .factor = 1.3, .growth = 0.1, .growth_from = 2},
        {.frequency = frequency,
         .interleaved = true,
         .growth = 0.2,
         .growth_from = 3,
         .growth_shift = 1},
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; ++i)
        op_check_dtypes((op_case){.op = &hil_op_rope,
                                  .attr = &variants[i],
                                  .reference = reference,
                                  .ins = 2,
                                  .outs = 1,
                                  .in_shape = {{4, {2, 3, 3, 10}}, {2, {2, 3}}},
                                  .ids = {NULL, positions}});
    op_case wrong = {.op = &hil_op_rope,
                     .attr = &attr,
                     .ins = 2,
                     .in_shape = {{4, {2, 3, 4, 6}}, {2, {3, 2}}},
                     .ids = {NULL, positions}};
    OP_REFUSED(&wrong,
               "rope: input 1 is int32 (3, 2), expected int32 (2, 3) to go with (2, 3, 4, 6)");
    wrong.in_shape[1] = (hil_shape){2, {2, 3}};
    wrong.in_shape[0].dim[3] = 5;
    OP_REFUSED(&wrong, "rope: heads of 5 numbers in (2, 3, 4, 5)");
    wrong.attr = &variants[0];
    wrong.in_shape[0].dim[3] = 2;
    OP_REFUSED(&wrong, "rope: 4 numbers turn after 0, but heads are (2, 3, 4, 2)");
    wrong.attr = &(const hil_rope_attr){.frequency = frequency, .growth = 0.1};
    OP_REFUSED(&wrong, "rope: growth from 0 on, of 2 numbers of (2, 3, 4, 2)");
    wrong.in_shape[0].ndim = 3;
    OP_REFUSED(&wrong, "rope: input 0 is (2, 3, 4), expected 4 dimensions");
    return 0;
}
