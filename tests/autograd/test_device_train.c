/* An asynchronous device gives the bits of the CPU: losses, norms, weights and moments of several
   steps, for every order of micro-batches and any placement of values and units, with random delays
   on its streams. It needs exactly the memory of the rehearsal. */
/* soak: --full */
#include "device_net.h"
#include "places.h"

enum { STEPS = 3 };

typedef struct numbers {
    double loss[STEPS], norm[STEPS];
    float *all; /* masters and first moments */
    int64_t count;
} numbers;

static numbers train(const net_how *how)
{
    net_rig r;
    numbers out = {0};
    net_open(&r, how);
    for (int s = 0; s < STEPS; ++s) net_step(&r, &out.loss[s], &out.norm[s]);
    CHECK_INT(hil_engine_work(r.engine), r.plan.work);
    CHECK_INT(hil_engine_offloaded(r.engine), r.plan.offloaded);
    out.all = read_numbers(r.model->store, &out.count);
    net_close(&r);
    return out;
}

static void compare(const numbers *got, const numbers *expected)
{
    CHECK(expected->loss[0] > 0 && expected->norm[0] > 0);
    CHECK(memcmp(got->loss, expected->loss, sizeof got->loss) == 0);
    CHECK(memcmp(got->norm, expected->norm, sizeof got->norm) == 0);
    CHECK_INT(got->count, expected->count);
    CHECK(memcmp(got->all, expected->all, (size_t)got->count * sizeof *got->all) == 0);
}

static const net_how hows[] = {
    {.delay = 1, .group = 0, .keep = {9, 9, 9}, .values = DEVICE},
    {.delay = 2, .group = 1, .keep = {0, 0, 0}, .values = DEVICE},
    {.delay = 3, .group = 0, .keep = {1, 0, 2}, .values = HOST},
    {.delay = 4, .group = 2, .keep = {9, 0, 1}, .values = HOST, .weights = HIL_HOST},
    {.delay = 5,
     .group = 0,
     .keep = {0, 0, 0},
     .values = HOST,
     .weights = HIL_HOST,
     .states = HIL_HOST},
    {.delay = 6,
     .group = 0,
     .keep = {2, 0, 1},
     .values = {HIL_DISK, HIL_HOST, HIL_DISK},
     .weights = HIL_DISK,
     .states = HIL_DISK},
    /* The tiles of one operation reuse the same window memory. */
    {.delay = 2, .group = 0, .lean = {9, 9, 9}, .values = DEVICE},
    {.delay = 3, .group = 2, .keep = {1, 0, 0}, .lean = {0, 1, 9}, .values = HOST},
    {.delay = 4, .lean = {9, 9, 9}, .values = DEVICE, .tapes = HOST},
    {.delay = 5, .keep = {9, 9, 9}, .values = DEVICE, .tapes = HOST, .late = true},
    {.delay = 5, .group = 2, .keep = {1, 0, 9}, .lean = {1, 1, 0}, .values = HOST, .tapes = HOST},
    {.delay = 6, .keep = {1, 1, 0}, .lean = {1, 0, 9}, .tapes = {HIL_DISK, HIL_HOST, HIL_DISK}},
    {.delay = 6, .group = 1, .lean = {-9, -9, -9}, .values = DEVICE, .tapes = HOST},
    {.delay = 7, .group = 2, .keep = {0, 1, 0}, .lean = {-1, 1, -9}, .values = HOST},
    {.delay = 7, .keep = {9, 9, 9}, .window = 160 << 10, .weights = HIL_HOST, .states = HIL_HOST},
    {.delay = 1, .keep = {0, 0, 0}, .window = 160 << 10, .weights = HIL_HOST, .states = HIL_HOST},
};

static size_t stride = CHECK_SLOW ? 5 : 3; /* 1: every setting for every model */

static void check(const char *model, hil_dtype dtype, bool documents, size_t from)
{
    net_how how = {.group = 1, .keep = {9, 9, 9}, .values = DEVICE};
    how.model = model;
    how.dtype = dtype;
    how.training = true;
    how.documents = documents;
    numbers expected = train(&how);
    for (size_t i = from % stride; i < sizeof hows / sizeof *hows; i += stride) {
        how = hows[i];
        how.model = model;
        how.dtype = dtype;
        how.training = true;
        how.documents = documents;
        numbers got = train(&how);
        compare(&got, &expected);
        hil_free(got.all);
    }
    hil_free(expected.all);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--full") == 0) stride = 1;
    check("gpt2", HIL_F32, false, 0);
    check("gpt2", HIL_BF16, true, 1);
    check("llama", HIL_BF16, false, 2);
    check("llama", HIL_F16, true, 3);
    check("shared", HIL_F32, false, 4);
    return 0;
}
