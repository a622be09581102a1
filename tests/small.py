"""What the tests that run the command line share: how it is started, and a small pipeline."""

from __future__ import annotations

START = "import sys; from rnncheck.__main__ import main; sys.exit(main())"

# Without its collect stage: each test says how much it collects.
PIPELINE = """\
schema: 1
name: small
env:
  use: GymEnv
  env_name: CartPole-v1
  categorical_action_encoding: true
  transforms: [InitTracker]
policy:
  modules:
    - {use: LSTMModule, in_key: observation, out_key: features, hidden_size: 8}
    - {use: MLP, in_keys: [features], out_keys: [action_value], num_cells: [], out_features: auto}
    - QValueModule
"""
