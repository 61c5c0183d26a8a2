/* Large pieces of any alignment are written with O_DIRECT; if the drive refuses that, the same
   bytes go through the page cache; other errors fail the save. */
#include "interpose.h"
#include "save_rig.h"
#include "store/state.h"
#include "store/store.h"

enum { PIECE = 60 * 1024 + 256, FDS = 1024 };

static char root[] = "/tmp/hilbert-direct-XXXXXX", folder[HIL_PATH_MAX];
static bool direct[FDS];  /* descriptors with O_DIRECT */
static size_t past, thru; /* bytes written with O_DIRECT and through the page cache */
static int refuse;        /* the errno of writes with O_DIRECT; 0: none */

static int before(const call *c)
{
    if (call_rank || c->kind != CALL_WRITE || c->fd < 0 || c->fd >= FDS) return 0;
    return direct[c->fd] ? refuse : 0;
}

static void after(const call *c, long result)
{
    if (c->kind == CALL_OPEN && result < FDS) direct[result] = (c->flags & O_DIRECT) != 0;
    if (c->kind == CALL_WRITE && c->fd < FDS) *(direct[c->fd] ? &past : &thru) += (size_t)result;
}

static hil_store *make_store(void)
{
    static const hil_param_spec specs[] = {{.name = "blocks", .shape = {2, {300, 1024}}},
                                           {.name = "a vector", .shape = {1, {777}}},
                                           {.name = "odd", .shape = {2, {333, 777}}}};
    hil_store *store;
    hil_param *param;
    CHECK_OK(hil_store_create(&store));
    for (int i = 0; i < 3; ++i) CHECK_OK(hil_store_add(store, &specs[i], &param));
    hil_store_options options = {
        .compute = HIL_F32, .training = true, .tile_size = 4 << 20, .moments = 2};
    CHECK_OK(hil_store_arrange(store, &options));
    return store;
}

/* Pieces whose memory begins `shift` bytes after a page. */
static hil_status save(hil_store *store, int64_t step, size_t shift)
{
    static _Alignas(4096) char memory[PIECE * 4 + 4096];
    float *piece = (float *)(void *)(memory + shift);
    hil_checkpoint_writer *writer;
    hil_checkpoint_options options = {.folder = folder, .step = step, .store = store};
    CHECK_OK(hil_checkpoint_begin(&writer, &options));
    hil_status status = HIL_OK;
    past = thru = 0;
    for (size_t i = 0; i < hil_store_count(store); ++i)
        for (int s = 0; s < HIL_STATES; ++s) {
            hil_param *p = hil_store_at(store, i);
            int64_t all = hil_param_elements(p), count;
            for (int64_t first = 0; first < all && status == HIL_OK; first += count) {
                count = all - first < PIECE ? all - first : PIECE;
                for (int64_t k = 0; k < count; ++k) piece[k] = rig_value(i, s, first + k, step);
                status = hil_checkpoint_put(writer, p, (hil_state)s, first, count, piece);
            }
        }
    json_t *state = json_pack("{s:I}", "step", (json_int_t)step);
    status = hil_checkpoint_finish(writer, state);
    json_decref(state);
    return status;
}

static void check(hil_store *store, int64_t step, size_t shift)
{
    hil_checkpoint_found found;
    CHECK_OK(save(store, step, shift));
    ++calls_unseen;
    CHECK_OK(hil_checkpoint_find(folder, NULL, &found));
    CHECK_INT(found.step, step);
    CHECK_TEXT(found.warning, "");
    rig_check_content(store, folder, step);
    --calls_unseen;
    printf("%zu bytes past the page cache, %zu through it\n", past, thru);
}

int main(void)
{
    hil_store *store = make_store();
    CHECK(mkdtemp(root) != NULL);
    CHECK_OK(hil_path_join(folder, root, "checkpoints"));
    bool works = false;
    check(store, 1, 0);
    works = past > 0;
    if (works) CHECK(past > thru);
    check(store, 2, 1024);
    if (works) CHECK(past > thru);
    check(store, 3, 4);
    CHECK_INT((int64_t)past, 0);
    refuse = EINVAL;
    check(store, 4, 0);
    CHECK_INT((int64_t)past, 0);
    refuse = EIO;
    if (works) CHECK_FAILS(save(store, 5, 0), HIL_ERR_IO, "Input/output error");
    refuse = 0;
    check(store, 5, 2048);
    CHECK_OK(hil_file_remove_tree(root));
    hil_store_destroy(store);
    return 0;
}
