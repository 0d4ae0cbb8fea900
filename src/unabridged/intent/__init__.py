"""What people meant: whose words a turn is, which requests are open, which rules stand."""
