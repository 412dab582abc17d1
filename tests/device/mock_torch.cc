/* mock_torch.cc -- stands for libtorch_cpu.so: its observers, as far as libopmeter-cuda knows them.
 *
 * In C++, since what is tested is whether C meets the conventions of C++: a class passed by value,
 * a unique_ptr returned, names as compilers mangle them. Where members lie is made up, and differs
 * between the two forms of a call (LAYOUT), as it may between versions. mock_torch.h is for C. */
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace c10
{

struct TensorImpl {
    virtual ~TensorImpl() = default;
    uint64_t before[LAYOUT] = {};
    uint64_t rank = 0;
    union {
        int64_t *elsewhere;
        int64_t here[10];
    };
    int64_t offset = 0;
    int64_t nelements = 1;
    uint16_t type = 0;
    std::vector<int64_t> many;

    TensorImpl(const int64_t *dims, uint64_t n, uint16_t type) : rank(n), type(type)
    {
        many.assign(dims, dims + n);
        many.resize(2 * n, 1);
        if (n > 5)
            elsewhere = many.data();
        else
            std::copy(dims, dims + n, here);
        for (uint64_t i = 0; i < n; i++)
            nelements *= dims[i];
    }
};

struct UndefinedTensorImpl : TensorImpl {
    static UndefinedTensorImpl _singleton;
    UndefinedTensorImpl() : TensorImpl(nullptr, 0, 0)
    {
        rank = 77;
    }
};
UndefinedTensorImpl UndefinedTensorImpl::_singleton;

struct IValue {
    const void *payload;
    uint32_t tag; /* 0: none, 1: a tensor, 5: a number */
};

} // namespace c10

namespace at
{

struct ObserverContext {
    virtual ~ObserverContext() = default;
};

struct RecordFunction {
    uint64_t before[LAYOUT] = {};
    std::string text;
    bool async = false;
    uint64_t between[LAYOUT] = {};
    const c10::IValue *inputs = nullptr;
    size_t ninputs = 0;
    std::vector<std::pair<void *, void *>> running;

    virtual ~RecordFunction() = default;
    const char *name() const;
    bool isAsync() const;
};

const char *RecordFunction::name() const
{
    return text.c_str();
}

bool RecordFunction::isAsync() const
{
    return async;
}

class RecordFunctionCallback
{
  public:
    using StartCallback = std::unique_ptr<ObserverContext> (*)(const RecordFunction &);
    using EndCallback = void (*)(const RecordFunction &, ObserverContext *);
    StartCallback start_;
    EndCallback end_;
    double sampling_prob_ = 1.0;
    std::array<bool, 10> scopes_ = {};
    bool needs_inputs_ = false;
    bool needs_outputs_ = false;
    bool needs_ids_ = false;
};

struct Entry {
    RecordFunctionCallback callback;
    uint64_t handle;
};
static std::vector<Entry> entries;

uint64_t addGlobalCallback(RecordFunctionCallback callback)
{
    static uint64_t handles;

    if (callback.sampling_prob_ != 1.0 || callback.needs_outputs_ || callback.needs_ids_)
        std::abort();
    entries.push_back({ callback, ++handles });
    return handles;
}

void removeCallback(uint64_t handle)
{
    entries.erase(std::remove_if(entries.begin(), entries.end(),
                                 [&](const Entry &e) { return e.handle == handle; }),
                  entries.end());
}

} // namespace at

extern "C" {

void *mock_torch_tensor(const int64_t *dims, uint64_t rank, uint16_t type)
{
    static std::vector<std::unique_ptr<c10::TensorImpl>> all;

    all.push_back(std::make_unique<c10::TensorImpl>(dims, rank, type));
    return all.back().get();
}

void *mock_torch_undefined(void)
{
    return &c10::UndefinedTensorImpl::_singleton;
}

int mock_torch_observers(void)
{
    return (int)at::entries.size();
}

/* NULL: not a tensor. */
void *mock_torch_begin(const char *name, int scope, int async, void *const *tensors, int n)
{
    auto *function = new at::RecordFunction;
    std::vector<c10::IValue> values;

    for (int i = 0; i < n; i++)
        values.push_back(tensors[i] ? c10::IValue{ tensors[i], 1 }
                                    : c10::IValue{ (const void *)(uintptr_t)3, 5 });
    function->text = name;
    function->async = async;
    for (const auto &e : at::entries) {
        if (!e.callback.scopes_[scope])
            continue;
        function->inputs = e.callback.needs_inputs_ ? values.data() : nullptr;
        function->ninputs = e.callback.needs_inputs_ ? values.size() : 0;
        std::unique_ptr<at::ObserverContext> context = e.callback.start_(*function);
        if (context)
            std::abort();
        function->running.push_back({ (void *)e.callback.end_, nullptr });
    }
    function->inputs = nullptr;
    return function;
}

void mock_torch_end(void *call)
{
    auto *function = (at::RecordFunction *)call;

    for (auto &r : function->running)
        ((at::RecordFunctionCallback::EndCallback)r.first)(*function, nullptr);
    delete function;
}
}
