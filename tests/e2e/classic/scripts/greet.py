"""A script beside the playbook, as earlier releases loaded it."""


def main(input_data):
    return {"greeting": f"Hello, {input_data['name']}!"}
