/* A stand-in libnvidia-ml.so.1: it hands out what a mapped file says, and counts who asked what.
 *
 *   cc -O2 -Wall -shared -fPIC -Wl,-Bsymbolic -o libnvidia-ml.so.1 nvml_shim.c -lm
 *
 * It has no model of a GPU. The file (see shim.py, which writes it) holds per GPU what each sensor shows now; a NaN
 * there means that this GPU does not have that sensor. It has no soname on purpose: LD_LIBRARY_PATH finds it by its
 * file name, and a test that opens it by path does not put it in the way of later loads in the same process.
 *
 * Environment, read at each first nvmlInit:
 *   FAKE_NVML_FEED=path   the mapped file; without it there is a driver and no GPU
 *   FAKE_NVML_INIT=code   nvmlInit answers this code (9: driver not loaded, 18: version mismatch)
 *   FAKE_NVML_CALLS=path  a line "function gpu" is appended for each call ("-" where it is about no GPU)
 *   FAKE_NVML_CTL=path    control file, read again when another file takes its place; one command a line:
 *       lost G [PID]          every query on GPU G, in process PID alone, answers "GPU is lost" (15)
 *       error SYMBOL CODE     that function answers CODE (3 not supported, 4 no permission, 999 unknown)
 *       error SYMBOL CODE G   the same, on GPU G only
 *       module G              power fields are there in module scope only, as on some superchips
 *       error * CODE          every query answers CODE
 *       latency MICROSECONDS  each query takes this long
 *       hang G                queries on GPU G do not come back until the control file says otherwise
 *       crash G               a query on GPU G ends the process with SIGSEGV
 *       mig G N               GPU G is divided into N parts (MIG): no utilization, memory in equal shares
 *       xid G CODE            one Xid event, delivered once per file to each event set
 *
 * The init code may also be an "error nvmlInitWithFlags CODE" of the control file, so that it can come and go. A
 * negative power, utilization or energy in the feed is the driver's blank value.
 *
 * No NVIDIA header is used: the ABI is spelled out from the public documentation, sizes asserted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef int Ret;
typedef struct Gpu *Dev;
typedef unsigned int U;
typedef unsigned long long U64;
enum { OK = 0, UNINIT = 1, INVAL = 2, NOTSUP = 3, NOTFOUND = 6, SMALL = 7, TIMEOUT = 10, LOST = 15, VERSION = 25, UNKNOWN = 999 };

typedef struct { char legacy[16]; U domain, bus, device, devId, subId; char id[32]; } Pci;
typedef struct { U gpu, mem; } Util;
typedef struct { U64 total, free, used; } Mem;
typedef struct { U version; U64 total, reserved, free, used; } Mem2;
typedef struct { U pid; U64 used; U gi, ci; } Proc2;
typedef union { double d; U u; unsigned long ul; U64 ull; long long sll; int si; unsigned short us; } Val;
typedef struct { U field, scope; long long ts, latency; int type; Ret ret; Val v; } Field;
typedef struct { U64 ts; Val v; } Sample;
typedef struct { Dev dev; U64 type, data; U gi, ci; } Event;
typedef struct { U id; Ret ret; double v; struct { char *s, *l, *u; } info; } GpmMetric;
typedef struct { U version, n; void *s1, *s2; GpmMetric m[]; } GpmGet;
typedef struct { U version, ok; } GpmSupport;
_Static_assert(sizeof(Pci) == 68 && sizeof(Mem2) == 40 && sizeof(Proc2) == 24 && sizeof(Field) == 40, "abi");
_Static_assert(sizeof(Sample) == 16 && sizeof(Event) == 32 && sizeof(GpmMetric) == 40, "abi");

/* ---- the mapped file; the order of the values is VALUES in shim.py ---- */
enum {
    POWER_INSTANT_W, POWER_AVERAGE_W, ENERGY_J, UTIL, MEM_UTIL, SM_ACTIVE, SM_CLOCK_MHZ, MEMORY_USED_BYTES, TEMPERATURE_C,
    EVENT_REASONS, PCIE_GEN, PCIE_WIDTH, PSTATE, POWER_LIMIT_W, POWER_DEFAULT_LIMIT_W, MEMORY_TOTAL_BYTES, SM_CLOCK_MAX_MHZ,
    PCIE_GEN_MAX, PCIE_WIDTH_MAX, PERSISTENCE, POWER_SMOOTHING, NVALUES
};
#define MAXGPU 64
#define MAXPROC 16
#define MAXSAMPLES 128
#define MAXPART 7
typedef struct {
    uint64_t seq; /* odd while it is being written */
    double v[NVALUES];
    uint32_t nproc, pad;
    struct { uint32_t pid, mib; } proc[MAXPROC];
    char uuid[48], name[64];
} Rec;
/* The driver's own ring of utilization samples: `n` entries, in whatever order the feed has them. */
typedef struct { uint64_t seq, n; struct { uint64_t us; uint32_t util, mem; } e[MAXSAMPLES]; } Ring;
typedef struct { Rec rec; Ring ring; } Entry;
typedef struct { uint64_t magic, count, record_bytes, pad; Entry gpu[]; } Feed;
#define MAGIC 0x4d6c766e65656431ull

struct Gpu { int i, part; Rec now; }; /* part 0: the whole GPU; 1..: a part of it */
static struct Gpu gpu[MAXGPU], part[MAXGPU][MAXPART];
static struct { int lost, module, hang, crash; U xid, parts; } fix[MAXGPU];
static struct { char sym[64]; int code, gpu; } errs[32];
static int count, nerrs, refs, xidgen, callsfd = -1;
static double callUs;
static const Feed *feed;
static const char *ctl;
static struct stat ctlSeen;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static double now(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec + t.tv_nsec * 1e-9; }

static void readctl(void) {
    struct stat st;
    if (!ctl || stat(ctl, &st) || (st.st_ino == ctlSeen.st_ino && st.st_size == ctlSeen.st_size && !memcmp(&st.st_mtim, &ctlSeen.st_mtim, sizeof st.st_mtim))) return;
    FILE *f = fopen(ctl, "r");
    if (!f) return;
    ctlSeen = st;
    memset(fix, 0, sizeof fix);
    nerrs = 0; callUs = 0; xidgen++;
    char line[256], a[64]; U g, x;
    while (fgets(line, sizeof line, f)) {
        int on = -1;
        if (sscanf(line, "lost %u %u", &g, &x) == 2) { if (g < MAXGPU) fix[g].lost = x == (U)getpid(); }
        else if (sscanf(line, "lost %u", &g) == 1 && g < MAXGPU) fix[g].lost = 1;
        else if (sscanf(line, "module %u", &g) == 1 && g < MAXGPU) fix[g].module = 1;
        else if (sscanf(line, "hang %u", &g) == 1 && g < MAXGPU) fix[g].hang = 1;
        else if (sscanf(line, "crash %u", &g) == 1 && g < MAXGPU) fix[g].crash = 1;
        else if (sscanf(line, "mig %u %u", &g, &x) == 2 && g < MAXGPU && x <= MAXPART) fix[g].parts = x;
        else if (sscanf(line, "error %63s %u %d", a, &x, &on) >= 2 && nerrs < 32) { strcpy(errs[nerrs].sym, a); errs[nerrs].gpu = on; errs[nerrs++].code = x; }
        else if (sscanf(line, "xid %u %u", &g, &x) == 2 && g < MAXGPU) fix[g].xid = x;
        else if (sscanf(line, "latency %u", &x) == 1) callUs = x;
    }
    fclose(f);
}

/* a consistent copy of what begins with a sequence number; a writer that died in the middle is not waited for */
static void copyout(void *to, const void *from, size_t size) {
    const uint64_t *seq = from;
    for (int tries = 0; tries < 1000; tries++) {
        uint64_t s = __atomic_load_n(seq, __ATOMIC_ACQUIRE);
        memcpy(to, from, size);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (!(s & 1) && s == __atomic_load_n(seq, __ATOMIC_RELAXED)) return;
    }
}
static void copyrec(int i) { copyout(&gpu[i].now, &feed->gpu[i].rec, sizeof(Rec)); }
static int failing(const char *sym, int i) {
    for (int k = 0; k < nerrs; k++)
        if ((!strcmp(errs[k].sym, sym) || !strcmp(errs[k].sym, "*")) && (errs[k].gpu < 0 || errs[k].gpu == i)) return errs[k].code;
    return OK;
}

/* what every query does first */
static Ret enter(const char *sym, int i) {
    if (callsfd >= 0) {
        char line[96];
        int n = i >= 0 ? snprintf(line, sizeof line, "%s %d\n", sym, i) : snprintf(line, sizeof line, "%s -\n", sym);
        if (write(callsfd, line, n) != n) return UNKNOWN;
    }
    if (!refs) return UNINIT;
    if (i >= count) return INVAL;
    if (ctl) {
        pthread_mutex_lock(&mu); readctl(); pthread_mutex_unlock(&mu);
        while (i >= 0 && fix[i].hang) { usleep(5000); pthread_mutex_lock(&mu); readctl(); pthread_mutex_unlock(&mu); }
        if (i >= 0 && fix[i].crash) raise(SIGSEGV);
        int code = failing(sym, i);
        if (code) return code;
        if (i >= 0 && fix[i].lost) return LOST;
    }
    if (callUs > 0) { struct timespec s = { callUs / 1e6, fmod(callUs, 1e6) * 1e3 }; nanosleep(&s, 0); }
    if (i >= 0) copyrec(i);
    return OK;
}
#define IN(i) do { Ret r_ = enter(__func__, i); if (r_) return r_; } while (0)
#define WITHIN(d, array) ((char *)(d) >= (char *)(array) && (char *)(d) < (char *)(array) + sizeof(array))
#define ANY(d) do { if (!WITHIN(d, gpu) && !WITHIN(d, part)) return INVAL; IN((d)->i); } while (0) /* parts too */
#define DEV(d) do { ANY(d); if ((d)->part) return NOTSUP; } while (0)
#define GIVE(d, which, to, scale) do { double x_ = (d)->now.v[which]; if (isnan(x_)) return NOTSUP; *(to) = x_ * (scale) + .5; return OK; } while (0)

/* ---- library ---- */
static Ret start(void) {
    const char *s = getenv("FAKE_NVML_INIT"), *path = getenv("FAKE_NVML_FEED"), *calls = getenv("FAKE_NVML_CALLS");
    if (s && atoi(s)) return atoi(s);
    ctl = getenv("FAKE_NVML_CTL");
    memset(fix, 0, sizeof fix); memset(&ctlSeen, 0, sizeof ctlSeen);
    count = nerrs = 0; callUs = 0; feed = 0;
    if (callsfd >= 0) close(callsfd);
    callsfd = calls && *calls ? open(calls, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    if (path && *path) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) || st.st_size < (off_t)sizeof(Feed)) return UNKNOWN;
        feed = mmap(0, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
        if (feed == MAP_FAILED || feed->magic != MAGIC || feed->record_bytes != sizeof(Entry) || feed->count > MAXGPU) return UNKNOWN;
        count = feed->count;
    }
    for (int i = 0; i < count; i++) {
        gpu[i].i = i; copyrec(i);
        for (int p = 0; p < MAXPART; p++) part[i][p].i = i, part[i][p].part = p + 1;
    }
    readctl();
    return failing("nvmlInitWithFlags", -1);
}
Ret nvmlInitWithFlags(U flags) {
    pthread_mutex_lock(&mu);
    Ret r = refs ? OK : start();
    if (!r) refs++;
    pthread_mutex_unlock(&mu);
    return r;
}
Ret nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
Ret nvmlInit(void) { return nvmlInitWithFlags(0); }
Ret nvmlShutdown(void) { pthread_mutex_lock(&mu); Ret r = refs ? (refs--, OK) : UNINIT; pthread_mutex_unlock(&mu); return r; }
const char *nvmlErrorString(Ret r) {
    static const char *s[] = { "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
        "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
        "GPU requires reset", "The operating system has blocked the request", "RM has detected an NVML/RM version mismatch",
        "In use", "Insufficient Memory", "No data" };
    return r >= 0 && r < (int)(sizeof s / sizeof *s) ? s[r] : "Unknown Error";
}
static Ret str(const char *s, char *b, U n) { if (!b) return INVAL; if (strlen(s) >= n) return SMALL; strcpy(b, s); return OK; }
Ret nvmlSystemGetDriverVersion(char *b, U n) { IN(-1); return str("570.133.20", b, n); }
Ret nvmlSystemGetNVMLVersion(char *b, U n) { IN(-1); return str("12.570.133.20", b, n); }
Ret nvmlSystemGetCudaDriverVersion_v2(int *v) { IN(-1); *v = 12080; return OK; }
Ret nvmlSystemGetProcessName(U pid, char *b, U n) {
    IN(-1); char p[64], c[256] = "python3"; snprintf(p, sizeof p, "/proc/%u/comm", pid);
    FILE *f = fopen(p, "r"); if (f) { if (fgets(c, sizeof c, f)) c[strcspn(c, "\n")] = 0; fclose(f); }
    return str(c, b, n);
}
static void partuuid(Dev d, char *b) { snprintf(b, 64, "MIG-fa4e0000-0000-4000-8000-%06d%06d", d->i, d->part); }
Ret nvmlDeviceGetCount_v2(U *n) { IN(-1); *n = count; return OK; }
Ret nvmlDeviceGetHandleByIndex_v2(U i, Dev *d) { IN((int)i); *d = &gpu[i]; return OK; }
Ret nvmlDeviceGetHandleByUUID(const char *u, Dev *d) {
    for (int i = 0; i < count; i++) {
        if (!strcmp(u, gpu[i].now.uuid)) { IN(i); *d = &gpu[i]; return OK; }
        for (U p = 0; p < fix[i].parts; p++) { char b[64]; partuuid(&part[i][p], b); if (!strcmp(u, b)) { IN(i); *d = &part[i][p]; return OK; } }
    }
    IN(-1); return NOTFOUND;
}

/* ---- identity ---- */
Ret nvmlDeviceGetIndex(Dev d, U *i) { DEV(d); *i = d->i; return OK; }
Ret nvmlDeviceGetMinorNumber(Dev d, U *i) { DEV(d); *i = d->i; return OK; }
Ret nvmlDeviceGetName(Dev d, char *b, U n) { ANY(d); return str(gpu[d->i].now.name, b, n); }
Ret nvmlDeviceGetUUID(Dev d, char *b, U n) {
    ANY(d); if (!d->part) return str(d->now.uuid, b, n);
    char name[64]; partuuid(d, name); return str(name, b, n);
}
Ret nvmlDeviceGetPciInfo_v3(Dev d, Pci *p) {
    DEV(d); memset(p, 0, sizeof *p); p->bus = 0x10 + d->i; p->devId = 0x2bb510de;
    snprintf(p->legacy, 16, "0000:%02X:00.0", p->bus); snprintf(p->id, 32, "00000000:%02X:00.0", p->bus); return OK;
}
Ret nvmlDeviceGetMigMode(Dev d, U *a, U *b) { DEV(d); if (isnan(d->now.v[SM_ACTIVE])) return NOTSUP; *a = *b = fix[d->i].parts > 0; return OK; }
Ret nvmlDeviceIsMigDeviceHandle(Dev d, U *y) { ANY(d); *y = d->part > 0; return OK; }
Ret nvmlDeviceGetMaxMigDeviceCount(Dev d, U *n) { DEV(d); *n = MAXPART; return OK; }
/* every second place is empty, as after parts have been taken away */
Ret nvmlDeviceGetMigDeviceHandleByIndex(Dev d, U at, Dev *m) { DEV(d); if (at % 2 || at / 2 >= fix[d->i].parts) return NOTFOUND; *m = &part[d->i][at / 2]; return OK; }
Ret nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Dev d, Dev *whole) { ANY(d); *whole = &gpu[d->i]; return OK; }
Ret nvmlDeviceGetGpuInstanceId(Dev d, U *id) { ANY(d); if (!d->part) return NOTSUP; *id = d->part; return OK; }
Ret nvmlDeviceGetPersistenceMode(Dev d, U *on) { DEV(d); GIVE(d, PERSISTENCE, on, 1); }

/* ---- single readings ---- */
Ret nvmlDeviceGetPowerUsage(Dev d, U *mw) {
    DEV(d); if (isnan(d->now.v[POWER_AVERAGE_W])) GIVE(d, POWER_INSTANT_W, mw, 1e3); GIVE(d, POWER_AVERAGE_W, mw, 1e3);
}
Ret nvmlDeviceGetTotalEnergyConsumption(Dev d, U64 *mj) { DEV(d); GIVE(d, ENERGY_J, mj, 1e3); }
Ret nvmlDeviceGetUtilizationRates(Dev d, Util *u) {
    DEV(d); if (fix[d->i].parts) return NOTSUP;
    double x = d->now.v[UTIL], m = d->now.v[MEM_UTIL]; if (isnan(x)) return NOTSUP;
    u->mem = isnan(m) ? 0 : m * 100 + .5; u->gpu = x < 0 ? ~0u : (U)(x * 100 + .5); return OK;
}
Ret nvmlDeviceGetMemoryInfo(Dev d, Mem *m) {
    DEV(d); double t = d->now.v[MEMORY_TOTAL_BYTES], u = d->now.v[MEMORY_USED_BYTES]; if (isnan(t) || isnan(u)) return NOTSUP;
    m->total = t; m->used = u + (512 << 20); m->free = m->total - m->used; return OK; /* the old call counts reserved memory as used */
}
Ret nvmlDeviceGetMemoryInfo_v2(Dev d, Mem2 *m) {
    ANY(d); if (m->version != (sizeof(Mem2) | 2 << 24)) return VERSION;
    double *v = gpu[d->i].now.v, share = d->part ? fix[d->i].parts : 1;
    double t = v[MEMORY_TOTAL_BYTES] / share, u = v[MEMORY_USED_BYTES] / share; if (isnan(t) || isnan(u)) return NOTSUP;
    m->total = t; m->reserved = 512 << 20; m->used = u; m->free = m->total - m->used - m->reserved; return OK;
}
Ret nvmlDeviceGetClockInfo(Dev d, int type, U *c) {
    DEV(d); if (type < 0 || type > 3) return INVAL; if (type == 2) { *c = 2619; return OK; } GIVE(d, SM_CLOCK_MHZ, c, 1);
}
Ret nvmlDeviceGetMaxClockInfo(Dev d, int type, U *c) { DEV(d); if (type == 2) { *c = 2619; return OK; } GIVE(d, SM_CLOCK_MAX_MHZ, c, 1); }
Ret nvmlDeviceGetTemperature(Dev d, int s, U *t) { DEV(d); if (s) return INVAL; GIVE(d, TEMPERATURE_C, t, 1); }
Ret nvmlDeviceGetPerformanceState(Dev d, int *p) { DEV(d); GIVE(d, PSTATE, p, 1); }
Ret nvmlDeviceGetCurrentClocksEventReasons(Dev d, U64 *r) { DEV(d); GIVE(d, EVENT_REASONS, r, 1); }
Ret nvmlDeviceGetCurrentClocksThrottleReasons(Dev d, U64 *r) { DEV(d); GIVE(d, EVENT_REASONS, r, 1); }
Ret nvmlDeviceGetEnforcedPowerLimit(Dev d, U *mw) { DEV(d); GIVE(d, POWER_LIMIT_W, mw, 1e3); }
Ret nvmlDeviceGetPowerManagementLimit(Dev d, U *mw) { DEV(d); GIVE(d, POWER_LIMIT_W, mw, 1e3); }
Ret nvmlDeviceGetPowerManagementDefaultLimit(Dev d, U *mw) { DEV(d); GIVE(d, POWER_DEFAULT_LIMIT_W, mw, 1e3); }
Ret nvmlDeviceGetCurrPcieLinkGeneration(Dev d, U *v) { DEV(d); GIVE(d, PCIE_GEN, v, 1); }
Ret nvmlDeviceGetCurrPcieLinkWidth(Dev d, U *v) { DEV(d); GIVE(d, PCIE_WIDTH, v, 1); }
Ret nvmlDeviceGetMaxPcieLinkGeneration(Dev d, U *v) { DEV(d); GIVE(d, PCIE_GEN_MAX, v, 1); }
Ret nvmlDeviceGetMaxPcieLinkWidth(Dev d, U *v) { DEV(d); GIVE(d, PCIE_WIDTH_MAX, v, 1); }
Ret nvmlDeviceGetPcieThroughput(Dev d, int k, U *kb) { DEV(d); usleep(20000); *kb = 1000; return OK; } /* blocks 20 ms, as documented */

/* ---- what other monitors ask ---- */
Ret nvmlDeviceGetFanSpeed(Dev d, U *v) { DEV(d); return NOTSUP; }
Ret nvmlDeviceGetTemperatureThreshold(Dev d, int which, U *t) { DEV(d); *t = 90; return OK; }
Ret nvmlDeviceGetEncoderUtilization(Dev d, U *v, U *period_us) { DEV(d); *v = 0; *period_us = 167000; return OK; }
Ret nvmlDeviceGetDecoderUtilization(Dev d, U *v, U *period_us) { DEV(d); *v = 0; *period_us = 167000; return OK; }
Ret nvmlDeviceGetProcessUtilization(Dev d, void *samples, U *n, U64 since) { DEV(d); *n = 0; return NOTFOUND; }
Ret nvmlDeviceGetComputeMode(Dev d, int *mode) { DEV(d); *mode = 0; return OK; }
Ret nvmlDeviceGetDisplayActive(Dev d, U *on) { DEV(d); *on = 0; return OK; }
Ret nvmlDeviceGetTotalEccErrors(Dev d, int type, int counter, U64 *n) { DEV(d); *n = 0; return OK; }

/* ---- processes ---- */
static Ret procs(Dev d, U *n, Proc2 *p) {
    U have = d->now.nproc > MAXPROC ? MAXPROC : d->now.nproc, cap = *n;
    *n = have;
    if (!have) return OK;
    if (cap < have || !p) return SMALL;
    for (U i = 0; i < have; i++) {
        U mib = d->now.proc[i].mib;
        p[i] = (Proc2){ d->now.proc[i].pid, mib == ~0u ? ~0ull : (U64)mib << 20, ~0u, ~0u };
    }
    return OK;
}
Ret nvmlDeviceGetComputeRunningProcesses_v3(Dev d, U *n, Proc2 *p) { ANY(d); return procs(&gpu[d->i], n, p); }
Ret nvmlDeviceGetComputeRunningProcesses_v2(Dev d, U *n, Proc2 *p) { DEV(d); return procs(d, n, p); }
Ret nvmlDeviceGetGraphicsRunningProcesses_v3(Dev d, U *n, Proc2 *p) { DEV(d); *n = 0; return OK; }

/* ---- batches: field values, sample ring, GPM ---- */
static void field(Dev d, Field *f, double t) {
    double x = NAN;
    f->ret = OK; f->type = 1; f->ts = t * 1e6; f->latency = 0;
    switch (f->field) {
    case 185: case 186: if ((f->scope == 1) == fix[d->i].module) x = d->now.v[f->field == 186 ? POWER_INSTANT_W : POWER_AVERAGE_W]; break;
    case 83: f->type = 3; x = d->now.v[ENERGY_J]; break;
    case 251: f->v.u = d->now.v[POWER_SMOOTHING]; if (isnan(d->now.v[POWER_SMOOTHING])) f->ret = NOTSUP; return;
    }
    if (isnan(x)) f->ret = NOTSUP;
    else if (f->type == 3) f->v.ull = x < 0 ? 0x7ffffffffffffff0ull : (U64)(x * 1e3 + .5);
    else f->v.u = x < 0 ? ~0u : (U)(x * 1e3 + .5); /* a negative power in the file: the driver's "not available" */
}
Ret nvmlDeviceGetFieldValues(Dev d, int n, Field *f) { DEV(d); if (!f || n < 1) return INVAL; double t = now(); for (int i = 0; i < n; i++) field(d, f + i, t); return OK; }
Ret nvmlDeviceGetSamples(Dev d, int type, U64 since, int *vt, U *n, Sample *s) {
    DEV(d); if (type < 1 || type > 2 || isnan(d->now.v[UTIL]) || fix[d->i].parts) return NOTSUP;
    static Ring r; copyout(&r, &feed->gpu[d->i].ring, sizeof r);
    U have = 0, room = s ? *n : MAXSAMPLES; *vt = 1;
    for (U k = 0; k < r.n; k++) {
        if (r.e[k].us <= since && r.e[k].us > MAXSAMPLES) continue; /* small times stand for the nonsense that real rings hold */
        if (have == room) return SMALL;
        if (s) s[have] = (Sample){ r.e[k].us, { .u = type == 1 ? r.e[k].util : r.e[k].mem } };
        have++;
    }
    *n = have; return have ? OK : NOTFOUND;
}

struct Gpm { int g; double v; };
Ret nvmlGpmQueryDeviceSupport(Dev d, GpmSupport *s) { DEV(d); s->ok = !isnan(d->now.v[SM_ACTIVE]); return OK; }
Ret nvmlGpmSampleAlloc(void **s) { IN(-1); *s = calloc(1, sizeof(struct Gpm)); return OK; }
Ret nvmlGpmSampleFree(void *s) { free(s); return OK; }
Ret nvmlGpmSampleGet(Dev d, void *s) { DEV(d); *(struct Gpm *)s = (struct Gpm){ d->i + 1, d->now.v[SM_ACTIVE] }; return OK; }
Ret nvmlGpmMigSampleGet(Dev d, U instance, void *s) { DEV(d); if (instance < 1 || instance > fix[d->i].parts) return INVAL; *(struct Gpm *)s = (struct Gpm){ d->i + 1, d->now.v[SM_ACTIVE] }; return OK; }
Ret nvmlGpmMetricsGet(GpmGet *m) {
    struct Gpm *a = m->s1, *b = m->s2; if (!a || !b || !a->g || a->g != b->g) return INVAL;
    IN(b->g - 1);
    for (U i = 0; i < m->n; i++) {
        GpmMetric *x = &m->m[i]; x->info.s = x->info.l = x->info.u = "";
        x->v = b->v * 100; x->ret = x->id == 2 && !isnan(b->v) ? OK : NOTSUP;
    }
    return OK;
}

/* ---- events ---- */
struct Set { int gen; U64 mask[MAXGPU]; };
Ret nvmlDeviceGetSupportedEventTypes(Dev d, U64 *m) { DEV(d); *m = 0x1d; return OK; }
Ret nvmlEventSetCreate(void **s) { IN(-1); struct Set *e = calloc(1, sizeof *e); e->gen = xidgen; *s = e; return OK; }
Ret nvmlEventSetFree(void *s) { free(s); return OK; }
Ret nvmlDeviceRegisterEvents(Dev d, U64 m, void *s) { DEV(d); ((struct Set *)s)->mask[d->i] |= m; return OK; }
Ret nvmlEventSetWait_v2(void *s, Event *ev, U ms) {
    struct Set *e = s; double end = now() + ms / 1e3;
    for (;;) {
        IN(-1);
        if (e->gen != xidgen) {
            e->gen = xidgen;
            for (int i = 0; i < count; i++) if (fix[i].xid && (e->mask[i] & 8)) { *ev = (Event){ &gpu[i], 8, fix[i].xid, ~0u, ~0u }; return OK; }
        }
        if (now() >= end) return TIMEOUT;
        usleep(20000);
    }
}
