/* cuda_load.c - loads the GPU module when a GPU is used, and before it the libraries that it needs,
   which may be in folders that the dynamic linker does not search. */
#include "machine/cuda_load.h"

#include "base/text.h"
#include "io/file.h"
#include "machine/interface.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MODULE "hilbert_cuda.so"

int hil_gpu_visible(void)
{
    /* the linker's search path, containers, WSL */
    static const char *const places[] = {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
                                         "/usr/lib/wsl/lib/libcuda.so.1"};
    int count = 0;
    void *driver = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !driver; ++i)
        driver = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
    if (!driver) return 0;
    int (*begin)(unsigned flags), (*tell)(int *count);
    *(void **)&begin = dlsym(driver, "cuInit");
    *(void **)&tell = dlsym(driver, "cuDeviceGetCount");
    if (!begin || !tell || begin(0) != 0 || tell(&count) != 0) return 0;
    return count;
}

/* The folder of the program, or of the library that contains this code. */
static bool find_folder(bool library, char folder[HIL_PATH_MAX])
{
    Dl_info info;
    if (library) {
        if (!dladdr((const void *)MODULE, &info) || !info.dli_fname) return false;
        snprintf(folder, HIL_PATH_MAX, "%s", info.dli_fname);
    } else {
        ssize_t length = readlink("/proc/self/exe", folder, HIL_PATH_MAX - 1);
        if (length <= 0) return false;
        folder[length] = '\0';
    }
    char *slash = strrchr(folder, '/');
    if (!slash) return false;
    *slash = '\0';
    return true;
}

/* Looks for the module beside the program, beside the library, and in the install folder. */
static bool find_module(char path[HIL_PATH_MAX], char folder[HIL_PATH_MAX])
{
    static const char *const places[] = {"", "/../lib/hilbert", "/hilbert"};
    char from[HIL_PATH_MAX];
    for (int library = 0; library < 2; ++library) {
        if (!find_folder(library, from)) continue;
        for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
            snprintf(folder, HIL_PATH_MAX, "%.3000s%s", from, places[i]);
            if (hil_path_join(path, folder, MODULE) == HIL_OK && access(path, F_OK) == 0)
                return true;
        }
    }
    return false;
}

/* Loads the newest file that the pattern matches. */
static bool load_match(const char *pattern)
{
    glob_t found;
    void *library = NULL;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = found.gl_pathc; i > 0 && !library; --i)
            library = dlopen(found.gl_pathv[i - 1], RTLD_NOW | RTLD_GLOBAL);
    globfree(&found);
    return library != NULL;
}

static bool load_under(const char *prefix, size_t length, const char *name)
{
    static const char *const folders[] = {"lib/python3*/site-packages/nvidia/*/lib",
                                          "lib/python3*/dist-packages/nvidia/*/lib",
                                          "lib/python3/dist-packages/nvidia/*/lib",
                                          "lib64/python3*/site-packages/nvidia/*/lib", "lib"};
    char pattern[HIL_PATH_MAX];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i) {
        int size =
            snprintf(pattern, sizeof pattern, "%.*s/%s/%s", (int)length, prefix, folders[i], name);
        if (size < (int)sizeof pattern && load_match(pattern)) return true;
    }
    return false;
}

/* Looks beside a library that is loaded already, or in a Python package next to it: libraries
   installed together match, while a libcudnn.so.9 elsewhere may belong to another CUDA. */
static bool load_near(const char *loaded, const char *name)
{
    static const char *const places[] = {"", "/../../*/lib"};
    void *handle = loaded ? dlopen(loaded, RTLD_NOW | RTLD_NOLOAD) : NULL;
    struct link_map *map;
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return false;
    const char *slash = strrchr(map->l_name, '/');
    char pattern[HIL_PATH_MAX];
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; ++i) {
        int size = snprintf(pattern, sizeof pattern, "%.*s%s/%s", (int)(slash - map->l_name),
                            map->l_name, places[i], name);
        if (size < (int)sizeof pattern && load_match(pattern)) return true;
    }
    return false;
}

/* Loads a library that the module or another library is linked against. Once it is loaded under its
   own name, the dynamic linker does not search for it. */
static bool load_library(const char *name, const char *folder, const char *prefixes)
{
    static const char *const usual[] = {"/usr/local/cuda/lib64", "/usr/local/cuda-13*/lib64",
                                        "/opt/cuda/lib64", "/opt/nvidia/*/lib64",
                                        "/usr/lib/*-linux-gnu"};
    char path[HIL_PATH_MAX];
    if (dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return true;
    if (hil_path_join(path, folder, name) == HIL_OK && dlopen(path, RTLD_NOW | RTLD_GLOBAL))
        return true;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; ++i)
        if (hil_path_join(path, usual[i], name) == HIL_OK && load_match(path)) return true;
    for (const char *at = prefixes; at && *at;) {
        size_t length = strcspn(at, ":");
        if (length && load_under(at, length, name)) return true;
        at += length + (at[length] == ':');
    }
    return load_under("/usr/local", strlen("/usr/local"), name) ||
           load_under("/usr", strlen("/usr"), name);
}

static hil_status load_libraries(const char *folder, const char *prefixes)
{
    static const struct {
        const char *name, *package;
    } needed[] = {{"libcublasLt.so.13", "nvidia-cublas"}, {"libcudnn.so.9", "nvidia-cudnn-cu13"}};
    load_library("libnvrtc.so.13", folder, prefixes); /* some plans of cuDNN need it */
    for (size_t i = 0; i < sizeof needed / sizeof *needed; ++i)
        if (!load_near(i ? needed[i - 1].name : NULL, needed[i].name) &&
            !load_library(needed[i].name, folder, prefixes))
            return hil_fail(HIL_ERR_INPUT,
                            "cannot find %s, which GPUs need: looked where the system looks, in "
                            "%s, in CUDA's usual folders and in Python's (nvidia/*/lib of "
                            "site-packages); pip install %s is one way, --device cpu another",
                            needed[i].name, folder, needed[i].package);
    return HIL_OK;
}

hil_status hil_gpu_load_device_comm(const char *prefixes, const hil_device_comm_maker **out)
{
    char path[HIL_PATH_MAX], folder[HIL_PATH_MAX];
    hil_cuda_module_device_comm find = NULL;
    void *module = find_module(path, folder) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (module) *(void **)&find = dlsym(module, HIL_CUDA_MODULE_DEVICE_COMM);
    if (!find) return hil_fail(HIL_ERR_INPUT, "this hilbert was built without NCCL");
    if (!load_library("libnccl.so.2", folder, prefixes))
        return hil_fail(HIL_ERR_INPUT, "cannot find NCCL (libnccl.so.2; pip install "
                                       "nvidia-nccl-cu13 is one way to have it)");
    return find(out);
}

static hil_status check_interface(void *module, const char *path)
{
    const char *interface = dlsym(module, HIL_CUDA_MODULE_INTERFACE);
    if (interface && strcmp(interface, HIL_INTERFACE) == 0) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "%s was built from other sources than this program (interface %.16s, not %s); "
                    "build or install both together, or use --device cpu",
                    path, interface ? interface : "unknown", HIL_INTERFACE);
}

hil_status hil_gpu_load(const char *prefixes, hil_cuda_module_open *out)
{
    char path[HIL_PATH_MAX], folder[HIL_PATH_MAX];
    if (!find_module(path, folder))
        return hil_fail(HIL_ERR_INPUT,
                        "this hilbert was built without CUDA (" MODULE " is not beside it); build "
                        "it with make CUDA=ON, or use --device cpu");
    HIL_TRY(load_libraries(folder, prefixes));
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module) return hil_fail(HIL_ERR_INPUT, "cannot load %s: %s", path, dlerror());
    *(void **)out = dlsym(module, HIL_CUDA_MODULE_OPEN);
    if (!*out) return hil_fail(HIL_ERR_INPUT, "%s is not hilbert's module for GPUs", path);
    return check_interface(module, path);
}
