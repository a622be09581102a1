"""Loops over vector envs of gymnasium's that reset in the same step."""

from __future__ import annotations

# PPO in a corridor whose sides look alike: many steps show the same.
CORRIDOR_PPO = """import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from gymnasium.vector import AutoresetMode, SyncVectorEnv


class TMaze(gym.Env):

    def __init__(self, length=5):
        self.length = length
        self.observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = gym.spaces.Discrete(3)

    def _obs(self):
        return np.array([self.sign if self.pos == 0 else 0, self.pos / self.length,
                         float(self.pos == self.length)], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sign = self.np_random.choice([-1, 1])
        self.pos = 0
        return self._obs(), {}

    def step(self, action):
        if self.pos == self.length and action != 0:
            good = (action == 1) == (self.sign > 0)
            return self._obs(), 4.0 if good else -1.0, True, False, {}
        if action == 0 and self.pos < self.length:
            self.pos += 1
        return self._obs(), -0.1, False, False, {}


def make():
    return gym.wrappers.TimeLimit(TMaze(), 11)


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_act, hid=16):
        super().__init__()
        self.hid = hid
        self.enc = nn.Linear(obs_dim, hid)
        self.cell = nn.LSTMCell(hid, hid)
        self.pi, self.v = nn.Linear(hid, n_act), nn.Linear(hid, 1)

    def step(self, obs, state, start):
        keep = (1 - start).unsqueeze(-1)
        h, c = self.cell(F.relu(self.enc(obs)), (state[0] * keep, state[1] * keep))
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1), (h, c)

    def unroll(self, obs, state, start):
        logits, values = [], []
        for o, s in zip(obs, start):
            d, v, state = self.step(o, state, s)
            logits.append(d.logits)
            values.append(v)
        return torch.distributions.Categorical(logits=torch.stack(logits)), torch.stack(values)


def main(num_envs=6, horizon=20, iters=4, gamma=0.99, lam=0.95):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    envs = SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    net = ActorCritic(3, 3)
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    obs = torch.from_numpy(envs.reset(seed=0)[0])
    start = torch.ones(num_envs)
    state = (torch.zeros(num_envs, net.hid), torch.zeros(num_envs, net.hid))
    for it in range(iters):
        first_state = state
        keys = ("obs", "start", "act", "logp", "val", "rew", "done")
        buf = {k: [] for k in keys}
        for _ in range(horizon):
            with torch.no_grad():
                dist, val, new_state = net.step(obs, state, start)
                act = dist.sample()
                logp = dist.log_prob(act)
            nobs, rew, term, trunc, info = envs.step(act.numpy())
            rew = torch.as_tensor(rew, dtype=torch.float32)
            done = torch.as_tensor(term | trunc, dtype=torch.float32)
            cut = trunc & ~term
            if cut.any():
                # the episode was only cut: add the value of what would have come
                shown = info.get("final_obs", nobs)
                final = np.stack([shown[i] if cut[i] else nobs[i] for i in range(num_envs)])
                with torch.no_grad():
                    _, fv, _ = net.step(torch.from_numpy(final), new_state, torch.zeros(num_envs))
                rew = rew + gamma * fv * torch.from_numpy(cut).float()
            for k, x in zip(keys, (obs, start, act, logp, val, rew, done)):
                buf[k].append(x)
            obs, start, state = torch.from_numpy(nobs), done, new_state
        b = {k: torch.stack(v) for k, v in buf.items()}
        with torch.no_grad():
            _, last_val, _ = net.step(obs, state, start)
        adv = torch.zeros(horizon, num_envs)
        acc = torch.zeros(num_envs)
        for t in range(horizon - 1, -1, -1):
            nxt = last_val if t == horizon - 1 else b["val"][t + 1]
            alive = 1 - b["done"][t]
            delta = b["rew"][t] + gamma * nxt * alive - b["val"][t]
            acc = delta + gamma * lam * alive * acc
            adv[t] = acc
        ret = adv + b["val"]
        norm = (adv - adv.mean()) / (adv.std() + 1e-8)
        for _ in range(2):
            perm = torch.as_tensor(rng.permutation(num_envs))
            for idx in perm.split(num_envs // 2):
                init = (first_state[0][idx], first_state[1][idx])
                dist, val = net.unroll(b["obs"][:, idx], init, b["start"][:, idx])
                ratio = torch.exp(dist.log_prob(b["act"][:, idx]) - b["logp"][:, idx])
                a = norm[:, idx]
                loss = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean() \
                    + 0.5 * F.mse_loss(val, ret[:, idx]) - 0.01 * dist.entropy().mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                opt.step()


main()
"""
# Several steps' returns; the networks run by turns on what is seen and on what is seen next.
SEVERAL_STEPS = """import gymnasium as gym
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

E, T, NSTEP, H, GAMMA, TAU = 4, 16, 3, 16, 0.97, 0.02


class Memory(gym.Env):
    observation_space = gym.spaces.Box(-10, 10, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def _obs(self):
        noise = self.np_random.normal() * 0.3
        return np.array([self.sign * (self.t == 0), self.t / 10, noise], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.sign = 0, float(self.np_random.choice([-1.0, 1.0]))
        return self._obs(), {}

    def step(self, a):
        self.t += 1
        rew = 1.0 if (a * 2 - 1) == self.sign else -1.0
        dead = bool(self.np_random.random() < 0.07)
        return self._obs(), rew, dead, self.t >= 10 and not dead, {}


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.cell, self.head = nn.Linear(3, H), nn.LSTMCell(H, H), nn.Linear(H, 2)

    def step(self, o, s):
        s = self.cell(F.relu(self.body(o)), s)
        return self.head(s[0]), s

    def unroll(self, obs, final, first, s):
        q, qn = [], []
        for t in range(obs.shape[0]):
            keep = (~first[t]).float().unsqueeze(-1)
            s = (s[0] * keep, s[1] * keep)
            q_t, s = self.step(obs[t], s)
            q.append(q_t)
            qn.append(self.step(final[t], s)[0])
        return torch.stack(q), torch.stack(qn)


def nstep(rew, dead, cut, v_next):
    n = len(rew)
    out = torch.zeros_like(rew)
    for t in range(n):
        g, disc, live = torch.zeros(E), torch.ones(E), torch.ones(E)
        for k in range(t, min(t + NSTEP, n)):
            g = g + live * disc * rew[k]
            disc = disc * GAMMA
            last = (cut[k] | dead[k]).float() if k < min(t + NSTEP, n) - 1 else torch.ones(E)
            g = g + live * last * disc * (1 - dead[k].float()) * v_next[k]
            live = live * (1 - last)
        out[t] = g
    return out


def run():
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    env = gym.vector.SyncVectorEnv([Memory] * E, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    online, target = Q(), Q()
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), 2e-3)
    obs, _ = env.reset(seed=5)
    first = np.ones(E, bool)
    s = (torch.zeros(E, H), torch.zeros(E, H))
    rows = []
    for it in range(25):
        row = {k: [] for k in ("obs", "final", "first", "act", "rew", "dead", "cut")}
        row["s0"] = (s[0].clone(), s[1].clone())
        for _ in range(T):
            keep = torch.from_numpy(~first).float().unsqueeze(-1)
            s = (s[0] * keep, s[1] * keep)
            with torch.no_grad():
                q, s = online.step(torch.from_numpy(obs), s)
            a = np.where(rng.random(E) < 0.3, rng.integers(2, size=E), q.argmax(-1).numpy())
            nxt, rew, dead, cut, info = env.step(a)
            rew, final = rew.astype(np.float32), nxt.copy()
            for i in np.flatnonzero(dead | cut):
                final[i] = info["final_obs"][i]
            there = dict(obs=obs, final=final, first=first, act=a, rew=rew, dead=dead, cut=cut)
            for k, v in there.items():
                row[k].append(torch.from_numpy(v.copy()))
            obs, first = nxt, dead | cut
        rows.append({k: v if k == "s0" else torch.stack(v) for k, v in row.items()})
        if it < 3:
            continue
        for _ in range(2):
            b = rows[rng.integers(len(rows))]
            q, qn = online.unroll(b["obs"], b["final"], b["first"], b["s0"])
            with torch.no_grad():
                _, qt = target.unroll(b["obs"], b["final"], b["first"], b["s0"])
                v = qt.gather(-1, qn.argmax(-1, keepdim=True)).squeeze(-1)
                y = nstep(b["rew"], b["dead"], b["cut"], v)
            loss = F.huber_loss(q.gather(-1, b["act"].unsqueeze(-1)).squeeze(-1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                for p, tp in zip(online.parameters(), target.parameters()):
                    tp.copy_(TAU * p + (1 - TAU) * tp)


run()
"""
