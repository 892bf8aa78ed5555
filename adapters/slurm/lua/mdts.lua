-- Asks the sidecar of mdts (mdts serve --slurm) about submissions. Lua 5.1 and later, with LuaSocket's socket.unix; without it, and
-- after any failure, every job passes unchanged.
--
-- Used by job_submit.lua (inside slurmctld) and cli_filter.lua (inside sbatch, srun, salloc). A site with scripts of its own calls it
-- from there:
--     local mdts = dofile("/etc/slurm/mdts.lua")
--     function slurm_job_submit(job_desc, part_list, submit_uid)
--         ...
--         return mdts.job_submit(job_desc, submit_uid)
--     end

local mdts = {
    socket = "/run/mdts/slurm.sock", -- where the sidecar listens
    budget = 0.020,                  -- seconds that a submission waits at most
    rest = 1.0,                      -- seconds without questions after one that was not answered in time
}

-- ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE: "Requested node configuration is not available".
local CONFIG_UNAVAILABLE = 2014

local is_there, unix = pcall(require, "socket.unix")
local has_clock, socket = pcall(require, "socket")
local now = has_clock and socket.gettime or os.time
local resting_until = 0
local has_complained = false

-- One line about the first of several failures in a row.
local function complain(log, why)
    if not has_complained then
        has_complained = true
        log("mdts: jobs pass unchanged: %s", tostring(why))
    end
end

local function escape(text)
    return (tostring(text):gsub("[%%%c]", function(c) return string.format("%%%02X", string.byte(c)) end))
end

local function unescape(text)
    return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- Sends a table of texts; the answer as a table, or nil and why there is none.
local function ask(request)
    if not (is_there and has_clock) then
        return nil, "LuaSocket with socket.unix is not installed (package lua-socket)"
    end
    local started = now()
    if started < resting_until then
        return nil, "the sidecar was too slow a moment ago"
    end
    local lines = {}
    for key, value in pairs(request) do
        lines[#lines + 1] = key .. "=" .. escape(value) .. "\n"
    end
    lines[#lines + 1] = "\n"
    local connection = (unix.stream or unix)()
    if not connection then
        return nil, "no socket"
    end
    local function left() connection:settimeout(math.max(mdts.budget - (now() - started), 0), "t") end
    local function fail(why)
        connection:close()
        if why == "timeout" then
            resting_until = now() + mdts.rest
        end
        return nil, why
    end
    left()
    local connected, why = connection:connect(mdts.socket)
    if not connected then
        return fail(why)
    end
    left()
    local sent
    sent, why = connection:send(table.concat(lines))
    if not sent then
        return fail(why)
    end
    local answer = {}
    while true do
        left()
        local line
        line, why = connection:receive("*l")
        if not line then
            return fail(why)
        end
        if line == "" then
            connection:close()
            return answer
        end
        local key, value = line:match("^([%w_]+)=(.*)$")
        if key then
            answer[key] = unescape(value)
        end
        if now() - started > mdts.budget then
            return fail("timeout")
        end
    end
end

-- The same for functions that Slurm calls: never an error.
local function ask_safely(request, log)
    local fine, answer, why = pcall(ask, request)
    if fine and answer then
        has_complained = false
        return answer
    end
    complain(log, fine and why or answer)
    return nil
end

local function is_set(value)
    return value ~= nil and value ~= "" and value ~= slurm.NO_VAL and value ~= slurm.NO_VAL16 and value ~= slurm.NO_VAL64
        and value ~= slurm.NO_VAL8
end

-- Puts a field into the request if it is set.
local function take(request, key, value)
    if is_set(value) then
        request[key] = type(value) == "number" and string.format("%.0f", value) or value
    end
end

-- "gres:gpu:2" as the number of GPUs; nil if it names anything else.
local function gpus(tres)
    local count = 0
    for part in tres:gmatch("[^,]+") do
        local rest = part:match("^gres[:/]gpu(.*)$")
        if not rest then
            return nil
        end
        count = count + (tonumber(rest:match("[:=](%d+)$")) or 1)
    end
    return count
end

local function describe(job, uid)
    local request = {}
    take(request, "name", job.name)
    take(request, "user", uid)
    take(request, "comment", job.comment)
    take(request, "dependency", job.dependency)
    take(request, "partition", job.partition)
    take(request, "nodelist", job.req_nodes)
    take(request, "exclude", job.exc_nodes)
    take(request, "features", job.features)
    take(request, "prefer", job.prefer)
    take(request, "reservation", job.reservation)
    local least, most = job.min_nodes, job.max_nodes
    if is_set(least) and least > 0 then
        most = is_set(most) and most >= least and most or least
        request.nodes = string.format("%.0f-%.0f", least, most)
    end
    take(request, "tasks", job.num_tasks)
    take(request, "tasks_per_node", job.ntasks_per_node)
    take(request, "cpus_per_task", job.cpus_per_task)
    take(request, "cpus", job.min_cpus)
    take(request, "cpus_per_node", job.pn_min_cpus)
    take(request, "memory", job.min_mem_per_node)
    take(request, "memory_per_cpu", job.min_mem_per_cpu)
    take(request, "gres", job.tres_per_node)
    if is_set(job.tres_per_job) then
        local count = gpus(job.tres_per_job)
        request.gpus = count
        request.opaque = not count and 1 or nil
    end
    if is_set(job.tres_per_task) then
        local count = gpus(job.tres_per_task)
        request.gpus_per_task = count
        request.opaque = not count and 1 or request.opaque
    end
    if is_set(job.tres_per_socket) or is_set(job.cpus_per_tres) or is_set(job.mem_per_tres) or is_set(job.clusters)
        or is_set(job.sockets_per_node) or is_set(job.cores_per_socket) or is_set(job.threads_per_core)
        or is_set(job.req_switch) or job.contiguous == 1 then
        request.opaque = 1
    end
    if is_set(job.time_limit) and job.time_limit ~= slurm.INFINITE then
        take(request, "minutes", job.time_limit)
    end
    request.exclusive = job.shared == 0 and 1 or nil
    request.array = is_set(job.array_inx) and 1 or nil
    request.component = is_set(job.het_job_offset) and 1 or nil
    local has_nice = is_set(job.nice) and job.nice ~= mdts.nice_offset
    request.has_priority = (is_set(job.priority) or has_nice) and 1 or nil
    request.waits = (job.priority == 0 or (is_set(job.begin_time) and job.begin_time > os.time())) and 1 or nil
    return request
end

-- What job_submit.lua does.
function mdts.job_submit(job, uid)
    mdts.nice_offset = slurm.NICE_OFFSET or 0x80000000
    local described, request = pcall(describe, job, uid)
    if not described then
        complain(slurm.log_error, request)
        return slurm.SUCCESS
    end
    local answer = ask_safely(request, slurm.log_error)
    if not answer then
        return slurm.SUCCESS
    end
    if answer.reject then
        slurm.log_user("mdts: %s", answer.reject)
        return CONFIG_UNAVAILABLE
    end
    if answer.nodelist then
        job.req_nodes = answer.nodelist
        -- The sidecar knows the job again by this, and moves it should it have to wait after all.
        if not is_set(job.admin_comment) then job.admin_comment = "mdts:placed" end
    end
    if answer.prefer then job.prefer = answer.prefer end
    if answer.partition then job.partition = answer.partition end
    if tonumber(answer.nice) then job.nice = mdts.nice_offset + tonumber(answer.nice) end
    return slurm.SUCCESS
end

-- Options of a command are texts; these stand for what was left open, or what the command does not have.
local open = { [""] = true, ["-2"] = true, unset = true, Unknown = true, ["(null)"] = true, ["invalid-context"] = true }

local function is_given(value)
    return value ~= nil and not open[tostring(value)]
end

local function mebibytes(text)
    local number, unit = tostring(text):match("^(%d+)([KMGT]?)")
    local factor = { [""] = 1, K = 1 / 1024, M = 1, G = 1024, T = 1024 * 1024 }
    return number and math.ceil(tonumber(number) * factor[unit])
end

local function minutes(text)
    local days, rest = text:match("^(%d+)%-(.*)$")
    local parts = {}
    for part in (rest or text):gmatch("[^:]+") do
        parts[#parts + 1] = tonumber(part)
    end
    if #parts == 0 or #parts > 3 then
        return nil
    end
    if days then
        -- Millions of days stand for no limit.
        return tonumber(days) < 100000 and tonumber(days) * 1440 + parts[1] * 60 + (parts[2] or 0) or nil
    end
    if #parts == 3 then
        return parts[1] * 60 + parts[2] + (parts[3] > 0 and 1 or 0)
    end
    return parts[1] + ((parts[2] or 0) > 0 and 1 or 0)
end

-- "2-4" as it is; the commands write "1-0" where nothing was asked for, and "2-0" for at least 2.
local function node_range(text)
    local least, most = tostring(text):match("^(%d+)%-(%d+)$")
    if most ~= "0" then
        return text
    end
    return least ~= "0" and least ~= "1" and least or nil
end

-- What cli_filter.lua does. The command already knows the user; sbatch's own defaults are left open here.
function mdts.cli_filter(options, offset)
    local function get(name)
        local found, value = pcall(function() return options[name] end)
        return found and is_given(value) and tostring(value) or nil
    end
    local request = {
        name = get("job-name"), comment = get("comment"), dependency = get("dependency"), partition = get("partition"),
        nodelist = get("nodelist"), exclude = get("exclude"), features = get("constraint"), prefer = get("prefer"),
        reservation = get("reservation"), nodes = get("nodes") and node_range(get("nodes")), tasks = get("ntasks"),
        tasks_per_node = get("ntasks-per-node"), gres = get("gres"),
        cpus_per_task = get("cpus-per-task") ~= "0" and get("cpus-per-task") or nil,
        exclusive = get("exclusive") and 1 or nil, array = get("array") and 1 or nil,
        component = offset and offset > 0 and 1 or nil,
        minutes = get("time") and minutes(get("time")), memory = get("mem") and mebibytes(get("mem")),
        memory_per_cpu = get("mem-per-cpu") and mebibytes(get("mem-per-cpu")),
        waits = (get("hold") or get("begin")) and 1 or nil,
        has_priority = (get("hold") or get("nice") or get("priority") and get("priority") ~= "0") and 1 or nil,
        opaque = (get("gpus") or get("gpus-per-task") or get("gpus-per-node") or get("clusters")) and 1 or nil,
    }
    local answer = ask_safely(request, slurm.log_verbose)
    if not answer then
        return slurm.SUCCESS
    end
    if answer.reject then
        slurm.log_error("mdts: %s", answer.reject)
        return slurm.ERROR
    end
    if answer.nodelist then options["nodelist"] = answer.nodelist end
    if answer.prefer then options["prefer"] = answer.prefer end
    if answer.partition then options["partition"] = answer.partition end
    if answer.nice then options["nice"] = answer.nice end
    return slurm.SUCCESS
end

return mdts
