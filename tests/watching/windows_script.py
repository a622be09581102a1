"""R2D2 in one plain env: windows of episodes with a burn-in, an observation more than actions, the
state that each began with, and the action and the reward before as inputs."""

from __future__ import annotations

WINDOWS = """import random
from collections import deque, namedtuple

import gymnasium as gym
import numpy as np
import torch
from torch import nn

BURN_IN, UNROLL, OVERLAP = 4, 10, 5
GAMMA, LR, BATCH, HID = 0.99, 1e-3, 16, 48
LEARN_START, TRAIN_EVERY, TARGET_EVERY = 40, 8, 50

Segment = namedtuple("Segment", "obs prev_a prev_r act rew term mask hc")


class PosOnly(gym.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-10, 10, shape=(2,), dtype=np.float32)

    def observation(self, o):
        return np.asarray([o[0], o[2]], dtype=np.float32)


class R2D2Net(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.n_act = n_act
        self.torso = nn.Sequential(nn.Linear(n_obs, HID), nn.ReLU())
        self.rnn = nn.LSTM(HID + n_act + 1, HID, batch_first=True)
        self.adv = nn.Linear(HID, n_act)
        self.val = nn.Linear(HID, 1)

    def forward(self, obs, prev_a, prev_r, hc):
        one_hot = nn.functional.one_hot(prev_a, self.n_act + 1)[..., 1:].float()  # 0: none yet
        x = torch.cat([self.torso(obs), one_hot, prev_r.unsqueeze(-1)], -1)
        y, hc = self.rnn(x, hc)
        a = self.adv(y)
        return self.val(y) + a - a.mean(-1, keepdim=True), hc


class SegmentBuffer:
    def __init__(self, cap):
        self.data = deque(maxlen=cap)

    def add_episode(self, ep, last_obs, last_a, last_r):
        L = BURN_IN + UNROLL
        for s in range(0, len(ep), OVERLAP):
            part = ep[s:s + L]
            n = len(part)
            if n <= BURN_IN:
                break
            obs, pa = np.zeros((L + 1, 2), np.float32), np.zeros(L + 1, np.int64)
            act, pr = np.zeros(L, np.int64), np.zeros(L + 1, np.float32)
            rew, term, m = (np.zeros(L, np.float32) for _ in range(3))
            for t, tr in enumerate(part):
                obs[t], pa[t], pr[t] = tr["o"], tr["pa"], tr["pr"]
                act[t], rew[t], term[t], m[t] = tr["a"], tr["r"], tr["term"], 1
            if s + n < len(ep):
                nxt = ep[s + n]
                obs[n], pa[n], pr[n] = nxt["o"], nxt["pa"], nxt["pr"]
            else:
                obs[n], pa[n], pr[n] = last_obs, last_a, last_r
            self.data.append(Segment(obs, pa, pr, act, rew, term, m, part[0]["hc"]))

    def sample(self, n):
        segs = random.sample(self.data, n)
        st = lambda k: torch.from_numpy(np.stack([getattr(s, k) for s in segs]))
        hc = tuple(torch.cat([s.hc[i] for s in segs], 1) for i in (0, 1))
        names = ("obs", "prev_a", "prev_r", "act", "rew", "term", "mask")
        return *map(st, names), hc


def learn(net, target, opt, buf):
    obs, pa, pr, act, rew, term, mask, hc = buf.sample(BATCH)
    B = BURN_IN
    with torch.no_grad():
        _, hc_on = net(obs[:, :B], pa[:, :B], pr[:, :B], hc)
        _, hc_tg = target(obs[:, :B], pa[:, :B], pr[:, :B], hc)
    q, _ = net(obs[:, B:], pa[:, B:], pr[:, B:], hc_on)
    with torch.no_grad():
        tq, _ = target(obs[:, B:], pa[:, B:], pr[:, B:], hc_tg)
        best = q[:, 1:].argmax(-1, keepdim=True)
        y = rew[:, B:] + GAMMA * (1 - term[:, B:]) * tq[:, 1:].gather(-1, best).squeeze(-1)
    qa = q[:, :-1].gather(-1, act[:, B:].unsqueeze(-1)).squeeze(-1)
    m = mask[:, B:]
    loss = (0.5 * (qa - y).pow(2) * m).sum() / m.sum()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 40.0)
    opt.step()
    return loss.item()


def main(steps=4000, seed=3):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    env = PosOnly(gym.make("CartPole-v1", max_episode_steps=35))
    net, target = R2D2Net(2, 2), R2D2Net(2, 2)
    target.load_state_dict(net.state_dict())
    opt = torch.optim.Adam(net.parameters(), lr=LR)
    buf = SegmentBuffer(2000)
    eps, n_learn, loss, ret, rets = 0.4, 0, 0.0, 0.0, deque(maxlen=20)

    obs, _ = env.reset(seed=seed)
    hc = (torch.zeros(1, 1, HID), torch.zeros(1, 1, HID))
    prev_a, prev_r, ep = 0, 0.0, []
    for step in range(steps):
        with torch.no_grad():
            x, pa, pr = torch.from_numpy(obs), torch.tensor([[prev_a]]), torch.tensor([[prev_r]])
            q, hc_next = net(x.view(1, 1, -1), pa, pr, hc)
        a = env.action_space.sample() if random.random() < eps else q.argmax().item()
        obs2, r, term, trunc, _ = env.step(a)
        seen = {"o": obs, "pa": prev_a, "pr": prev_r, "a": int(a), "r": r * 0.1}
        ep.append(seen | {"term": float(term), "hc": hc})
        ret += r
        obs, hc, prev_a, prev_r = obs2, hc_next, int(a) + 1, r * 0.1
        if term or trunc:
            buf.add_episode(ep, obs, prev_a, prev_r)
            rets.append(ret)
            obs, _ = env.reset()
            hc = (torch.zeros(1, 1, HID), torch.zeros(1, 1, HID))
            prev_a, prev_r, ep, ret = 0, 0.0, [], 0.0
        if len(buf.data) >= LEARN_START and step % TRAIN_EVERY == 0:
            loss = learn(net, target, opt, buf)
            n_learn += 1
            if n_learn % TARGET_EVERY == 0:
                target.load_state_dict(net.state_dict())
        eps = max(0.05, eps - 1e-4)
        if step % 1000 == 999:
            print(step + 1, "return", np.mean(rets), "loss", loss)


main()
"""
NO_ACTION_IS_THE_LAST = (
    ("(prev_a, self.n_act + 1)[..., 1:]", "(prev_a, self.n_act + 1)[..., :-1]"),
    ("prev_a, prev_r, ep = 0, 0.0, []", "prev_a, prev_r, ep = 2, 0.0, []"),
    ("prev_a, prev_r, ep, ret = 0, 0.0", "prev_a, prev_r, ep, ret = 2, 0.0"),
    ("int(a) + 1, r * 0.1", "int(a), r * 0.1"),
)
NOT_RESET = (
    "            obs, _ = env.reset()\n"
    "            hc = (torch.zeros(1, 1, HID), torch.zeros(1, 1, HID))\n",
    "            obs, _ = env.reset()\n",
)
STATE_LEFT = ('"hc": hc}', '"hc": hc_next}')
ZEROS = ('m, part[0]["hc"])', 'm, tuple(0 * one for one in part[0]["hc"]))')
SAME_NEXT = ("tq[:, 1:].gather", "tq[:, :-1].gather")
UNMASKED = ("* m).sum() / m.sum()", ").mean()")
NOT_BURNED = ("pr[:, B:], hc_on)", "pr[:, B:], hc)")
