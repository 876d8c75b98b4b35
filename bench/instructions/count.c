// A plugin for QEMU's user-mode emulation, which writes the number of instructions that a program has run to standard
// error when it ends. Parts of its API are declared here, so that QEMU's source need not be there.
// Source: QEMU documentation, "TCG Plugins".
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
extern void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);

// What is declared above is the same in the first two.
int qemu_plugin_version = INTERFACE;

// By thread, in cache lines of their own. Threads beyond them share, and may miss some.
enum { THREADS = 256 };
static struct { _Alignas(64) uint64_t instructions; } counts[THREADS];

static void run(unsigned thread, void *instructions) { counts[thread % THREADS].instructions += (uintptr_t)instructions; }

static void translate(plugin_id id, struct qemu_plugin_tb *block) {
    uintptr_t instructions = qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_cb(block, run, 0, (void *)instructions);
}

static void end(plugin_id id, void *nothing) {
    uint64_t all = 0;
    for (int thread = 0; thread < THREADS; thread++) all += counts[thread].instructions;
    fprintf(stderr, "instructions: %" PRIu64 "\n", all);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_atexit_cb(id, end, NULL);
    return 0;
}
