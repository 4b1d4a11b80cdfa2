"""What tests share: oracles, strategies, running services, fakes."""
