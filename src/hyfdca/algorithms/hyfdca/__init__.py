"""The paper's method, HyFDCA, with its line search and its safe step."""
