/* Experts without tokens are not moved: a mixture of 64 experts whose micro-batches choose few of
   them moves at most the planned bytes over every link, and strictly fewer in all, where one rank
   trains; several ranks move exactly what is planned. Losses and weights are those of a run with
   everything on the device, bit for bit, for every placement, also of a state ten times as large as
   the budgets of device and host together. */
#include "../run/crew.h"
#include "io/file.h"
#include "store/unit.h"

#include <unistd.h>

/* soak: --full */

enum { STEPS = 3 };

static const char *const mixture =
    "{\"model_type\": \"olmoe\", \"vocab_size\": 300, \"hidden_size\": 64,"
    " \"intermediate_size\": 24, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"num_hidden_layers\": 2, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5,"
    " \"num_experts\": 64, \"num_experts_per_tok\": 2, \"tie_word_embeddings\": false}";

typedef struct place {
    const char *dtype;
    int64_t micro_batch;
    int device, host; /* KiB, of each rank; no host: everything on the device */
    bool slow;        /* no prefetch */
    bool ten_times;   /* the state of one rank is ten times as large as both */
} place;

typedef struct seen {
    hil_plan plan;  /* its arrays are not to be used */
    uint64_t state; /* bytes of weights, masters and moments of this rank; its gradients */
} seen;

static void inspect(hil_trainer *t, void *context)
{
    seen *s = context;
    const hil_store *store = t->model->store;
    if (hil_comm_rank(t->options.comm)) return;
    *s = (seen){.plan = t->planned.plan};
    for (size_t u = 0; u < hil_store_units(store); ++u)
        for (int state = 0; state < HIL_UNIT_STATES; ++state)
            s->state += hil_unit_bytes(store, u, (hil_unit_state)state);
}

static void run(crew *c, const place *p, int ranks, const hil_disk_budget *disk, seen *s)
{
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.prefetch = !p->slow;
    *c = crew_of(0, ranks);
    c->config = mixture;
    c->options = &options;
    c->dtype = p->dtype;
    c->steps = STEPS;
    c->micro_batch = p->micro_batch;
    c->device_memory = (uint64_t)p->device << 10;
    c->host_memory = (uint64_t)p->host * (uint64_t)(ranks ? ranks : 1) << 10;
    c->disk = p->host ? disk : NULL;
    c->inspect = inspect;
    c->context = s;
    crew_run(c);
}

static void check(const place *p, int ranks, const hil_disk_budget *disk)
{
    crew here, placed;
    seen all;
    run(&here, &(place){p->dtype, p->micro_batch, 64 << 10, 0, false, false}, ranks, disk, &all);
    CHECK_INT(here.account[STEPS - 1].to_device_bytes, 0);
    run(&placed, p, ranks, disk, &all);
    const hil_plan plan = all.plan;
    if (p->ten_times) CHECK(all.state >= 10 * ((uint64_t)(p->device + p->host) << 10));
    for (int s = 0; s < STEPS; ++s) {
        const hil_step_account *a = &placed.account[s];
        printf("%d ranks, %s, micro %d, %dK and %dK: to device %llu of %llu, to host %llu of %llu, "
               "read %llu of %llu, written %llu of %llu, skipped %llu\n",
               ranks, p->dtype, (int)p->micro_batch, p->device, p->host,
               (unsigned long long)a->to_device_bytes, (unsigned long long)plan.to_device,
               (unsigned long long)a->to_host_bytes, (unsigned long long)plan.to_host,
               (unsigned long long)a->disk_read_bytes, (unsigned long long)plan.disk_read,
               (unsigned long long)a->disk_written_bytes, (unsigned long long)plan.disk_written,
               (unsigned long long)a->skipped_bytes);
        CHECK(a->device_peak <= plan.peak[HIL_DEVICE] && a->host_peak <= plan.peak[HIL_HOST]);
        if (s < 2) continue;
        CHECK(a->to_device_bytes <= plan.to_device && a->to_host_bytes <= plan.to_host);
        CHECK(a->disk_read_bytes <= plan.disk_read && a->disk_written_bytes <= plan.disk_written);
        CHECK((a->skipped_bytes > 0) == (ranks == 0));
        CHECK((a->to_device_bytes < plan.to_device) == (ranks == 0));
        uint64_t moved = a->to_device_bytes + a->to_host_bytes;
        CHECK(moved + a->skipped_bytes <= plan.to_device + plan.to_host);
    }
    CHECK(crew_same(&here, &placed));
    crew_free(&here);
    crew_free(&placed);
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    /* Micro-batches of 1 have fewer choices than there are experts, those of 3 have more. */
    static const place places[] = {
        {"fp32", 1, 700, 64 << 10, false, false}, /* in RAM */
        {"bf16", 3, 450, 1200, false, false},     /* on disk too */
        {"bf16", 3, 500, 900, true, false},
        {"bf16", 3, 450, 380, false, true},
    };
    char folder[] = "/tmp/hilbert-idle-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    hil_disk_budget disk = {folder, 64 << 20};
    alarm(600);
    for (size_t i = CHECK_SLOW && !full ? 3 : 0; i < sizeof places / sizeof *places; ++i)
        if (full || i != 1) check(&places[i], 0, &disk);
    check(&places[1], 2, &disk);
    if (full) check(&places[2], 3, &disk);
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
